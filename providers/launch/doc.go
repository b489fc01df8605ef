// Package launch is the launch protocol: it starts a worker that outlives its
// caller with nothing but a POSIX shell, and finds it again.
//
// # The run directory
//
// One folder per sandbox, outside the walls of the worker:
//
//	launch.sh     the script, see Script
//	epoch         the supervisor's epoch, a decimal number
//	worker.pid    the last launched worker, see ParsePID
//	worker.exit   how a worker ended, see ParseExit; it speaks of the last
//	              worker only when the launch ids are equal
//	worker.log    output of the worker in worker.pid from its byte 0, appended.
//	              A new launch begins a new file
//	lock/         held during a start; one entry, named pid.start.boot of its holder
//	answer        a pipe, during a start
//
// All of them are written by rename, so that a reader sees a whole file.
//
// # The call
//
//	env -i PATH=… sh launch.sh RUNDIR LAUNCHID EPOCH <input
//
// in a session of its own, by whatever means the provider has to start what
// outlives its caller; no signal may be ignored. The script answers one line
// on its output, see ParseAnswer, and closes it; it then goes on as the
// worker's keeper until the worker ends, and must never be signalled itself.
// An empty LAUNCHID raises the epoch and ends. The input comes from Input, so
// that what is secret is in no argv and in no file.
//
// # Who lives
//
// A process is the recorded one when number, start time and boot id are
// equal (the number alone where there is no /proc) and it is no zombie. A
// worker is alive while it lives itself, whatever became of its keeper. It has ended with a
// known code once worker.exit bears its launch id; with a lost code when
// neither it nor its keeper lives and worker.exit, read after that, does not
// bear its launch id.
package launch
