# shellcheck shell=sh
# What the driver asks of a sandbox, one short command each:
#
#	status PID START BOOT KEEPER KEEPER_START RUNDIR
#	members|TERM|KILL|STOP|CONT LAUNCHID PID START BOOT KEEPER
#
# Runs under dash, bash and BusyBox ash. No process is started per process
# looked at.
set -u
act=$1
shift

# look PID: sets state, parent, group, session and birth; fails for the dead.
look() {
	stat=
	# A process chooses its own name, line breaks included; only what follows
	# the last ")" counts.
	while IFS= read -r part; do stat="$stat $part"; done 2>/dev/null <"/proc/$1/stat" || return 1
	# shellcheck disable=SC2086 # numbers, to be split
	set -- ${stat##*) }
	[ $# -ge 20 ] || return 1
	state=$1 parent=$2 group=$3 session=$4
	shift 10
	birth=${10}
	case $state in Z | X) return 1 ;; esac
}

boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)

# alive PID START BOOT
alive() {
	[ "$3" = "$boot" ] || return 1
	if [ -n "$2" ]; then look "$1" 2>/dev/null && [ "$birth" = "$2" ]; else kill -0 "$1" 2>/dev/null; fi
}

if [ "$act" = status ]; then
	alive "$1" "$2" "$3" && echo worker
	alive "$4" "$5" "$3" && echo keeper
	# Read after looking: an ended keeper has written it by now.
	echo exit
	cat "$6/worker.exit" 2>/dev/null
	exit 0
fi

launch=$1 worker=$2 start=$3 worker_boot=$4 keeper=$5

# While anything of the worker's session or group lives, its number is not
# given out again; a stranger with that number shows that nothing does.
own=
if [ "$worker_boot" = "$boot" ]; then
	if alive "$worker" "$start" "$boot" || ! look "$worker" 2>/dev/null; then own=$worker; fi
fi

# marked lists the environments that hold the marker. Where grep can, in one
# go; a grep that takes a NUL for the end of all text needs help.
if printf 'a\0b\0' | grep -qzxF b 2>/dev/null; then
	marked() { grep -lzxF "POOL_RUN=$launch" /proc/[0-9]*/environ 2>/dev/null; }
else
	marked() {
		for environ in /proc/[0-9]*/environ; do
			tr '\0' '\n' 2>/dev/null <"$environ" | grep -qxF "POOL_RUN=$launch" && echo "$environ"
		done 2>/dev/null
	}
fi

# scan sets members to the numbers of all that belongs to the worker's tree.
scan() {
	members=' '
	for environ in $(marked); do
		pid=${environ#/proc/}
		members="$members${pid%/environ} "
	done
	grown=yes
	while [ -n "$grown" ]; do
		grown=
		for folder in /proc/[0-9]*; do
			pid=${folder#/proc/}
			case $members in *" $pid "*) continue ;; esac
			look "$pid" 2>/dev/null || continue
			if [ -n "$own" ] && { [ "$pid" = "$own" ] || [ "$session" = "$own" ] || [ "$group" = "$own" ]; }; then
				members="$members$pid " grown=yes
			else
				case $members in *" $parent "*) members="$members$pid " grown=yes ;; esac
			fi
		done
	done
	# Not the keeper, not this shell and what it started, not the dead.
	living=' '
	for pid in $members; do
		case $pid in "$keeper" | "$$" | 1) continue ;; esac
		look "$pid" 2>/dev/null && [ "$parent" != $$ ] && living="$living$pid "
	done
	members=$living
}

if [ "$act" = members ]; then
	scan
	echo "$members"
	exit 0
fi

# Again and again, since a tree grows while one looks at it: until a look finds
# nobody who has not got the signal, for KILL nobody at all, and for STOP
# nobody who still runs.
told=' ' rounds=0
while scan && [ $rounds -lt 50 ]; do
	rounds=$((rounds + 1)) waits=
	for pid in $members; do
		case $told in
		*" $pid "*)
			[ "$act" != KILL ] || waits=yes
			[ "$act" != STOP ] || { look "$pid" 2>/dev/null && [ "$state" != T ] && waits=yes; }
			;;
		*)
			kill -s "$act" "$pid" 2>/dev/null && waits=yes
			told="$told$pid "
			;;
		esac
	done
	[ -n "$waits" ] || exit 0
	[ $rounds -lt 5 ] || sleep 0.1 2>/dev/null || sleep 1
done
echo "$members"
exit 9
