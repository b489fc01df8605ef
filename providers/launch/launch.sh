#!/bin/sh
# launch.sh RUNDIR LAUNCHID EPOCH <input
#
# Starts one worker and stays as its keeper. Package launch describes the
# files, the answers and the input. An empty LAUNCHID only raises the epoch.
# Runs under dash, bash and BusyBox ash; expects an empty environment but PATH.
set -u
run=$1 launch=$2 epoch=$3
mask=$(umask)
umask 077
cd "$run" || { echo "failed no run directory"; exit 1; }

# birth PID: the start time of a process; nothing for a dead one or a zombie.
birth() {
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
	# A process chooses its own name, so only what follows the last ")" counts.
	# shellcheck disable=SC2086 # numbers, to be split
	set -- ${stat##*) }
	case $1 in Z | X) ;; *) echo "${20}" ;; esac
}

# alive PID START BOOT: is it this very process, not one that got its number?
alive() {
	[ -n "$1" ] && [ "$3" = "$boot" ] || return 1
	if [ -n "$2" ]; then [ "$(birth "$1")" = "$2" ]; else kill -0 "$1" 2>/dev/null; fi
}

field() { sed -n "s/^$1=//p" "$2" 2>/dev/null; }

replace() { cat >"$1.new" && mv -f "$1.new" "$1"; }

boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
keeper_start=$(birth $$)
me=$$.$keeper_start.$boot

# The lock is a folder with one entry, named after its holder: a dead holder's
# entry can be renamed by one taker only, and an entry beside ours shows that
# an emptied lock was made anew behind a slow holder's back.
only_mine() { [ "$(ls lock)" = "$me" ]; }
unlock() { rm -f "lock/$me" && rmdir lock 2>/dev/null; }
nap() { sleep 0.1 2>/dev/null || sleep 1; }
lock() {
	tries=0
	until mkdir lock 2>/dev/null && : >"lock/$me" && only_mine; do
		rm -f "lock/$me"
		tries=$((tries + 1))
		[ $tries -le 100 ] || return 1
		for held in lock/*; do
			held=${held#lock/} rest=${held#*.}
			if [ "$held" = '*' ]; then
				[ $((tries % 20)) -ne 0 ] || rmdir lock 2>/dev/null
			elif ! alive "${held%%.*}" "${rest%%.*}" "${rest#*.}"; then
				mv "lock/$held" "lock/$me" 2>/dev/null && only_mine && return
			fi
		done
		nap
	done
}

refuse() {
	unlock
	echo "$*"
	exit 0
}

case $launch in *[!A-Za-z0-9._-]*) echo "failed bad launch id" && exit 1 ;; esac
case $epoch in '' | *[!0-9]*) echo "failed bad epoch" && exit 1 ;; esac
lock 2>/dev/null || { echo "failed lock held by $(ls lock 2>/dev/null)" && exit 1; }

current=$(cat epoch 2>/dev/null)
case $current in '' | *[!0-9]*) current=0 ;; esac
[ "$epoch" -ge "$current" ] || refuse "stale $current"
if [ "$epoch" -gt "$current" ]; then
	echo "$epoch" | replace epoch || refuse "failed epoch not written"
fi
[ -n "$launch" ] || refuse "epoch $epoch"

last=$(field launch worker.pid)
[ "$launch" != "$last" ] || refuse "same $last"
if [ -n "$last" ]; then
	alive "$(field pid worker.pid)" "$(field start worker.pid)" "$(field boot worker.pid)" && refuse "conflict $last"
	# The old keeper may be about to write the old exit over ours.
	tries=0
	while alive "$(field keeper worker.pid)" "$(field keeper_start worker.pid)" "$(field boot worker.pid)"; do
		tries=$((tries + 1))
		[ $tries -le 50 ] || refuse "conflict $last"
		nap
	done
fi

# The answer goes through a helper that alone keeps the caller's output open:
# a shell that waits for a child in the foreground cannot close anything, and
# one that waits for a background child has made it deaf to SIGINT.
rm -f answer
mkfifo answer || refuse "failed no fifo"
exec 4<>answer
# shellcheck disable=SC2094 # it reads a pipe, not a file
(exec 4>&- && IFS= read -r line && rm -f answer && echo "$line") <answer &
exec >/dev/null 2>&1

# Handlers, not '': an ignored signal would stay ignored in the worker.
trap : HUP INT QUIT TERM
(
	input=$(cat)
	case $input in
	*"
pool_input=whole") ;;
	*) echo "failed input cut off" >&4 && exit 1 ;;
	esac
	setsid=$(command -v setsid) perl=$(command -v perl)
	pid=$(exec sh -c 'echo "$PPID"')
	replace worker.log </dev/null || { echo "failed log not written" >&4 && exit 1; }
	replace worker.pid <<-END || { echo "failed pid not written" >&4 && exit 1; }
		launch=$launch
		pid=$pid
		start=$(birth "$pid")
		boot=$boot
		keeper=$$
		keeper_start=$keeper_start
		at=$(date +%s)
	END
	unlock
	echo "started $pid" >&4
	exec </dev/null >>worker.log 2>&1 4>&-
	umask "$mask"
	unset PATH SHLVL
	eval "$input"
	# Not a group leader, so setsid keeps the pid instead of forking. macOS has
	# no setsid, but perl.
	[ -z "$setsid" ] || exec "$setsid" "$@"
	# shellcheck disable=SC2016 # perl's variables
	[ -z "$perl" ] || exec "$perl" -MPOSIX -e 'setsid; exec {$ARGV[0]} @ARGV; exit($! == ENOENT ? 127 : 126)' -- "$@"
	exec "$@"
)
code=$?
if [ "$(field launch worker.pid)" = "$launch" ]; then
	replace worker.exit <<-END
		launch=$launch
		code=$code
		at=$(date +%s)
	END
else
	unlock
	echo "failed before the start" >&4
fi
