package launch

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/outpostpool/pool/providers"
)

// Script is the launch script: POSIX sh, at home under dash, bash and BusyBox.
//
//go:embed launch.sh
var Script []byte

// Names of the files in a run directory.
const (
	ScriptFile = "launch.sh"
	EpochFile  = "epoch"
	PIDFile    = "worker.pid"
	ExitFile   = "worker.exit"
	LogFile    = "worker.log"
	LockDir    = "lock"
)

// Marker is the environment variable that carries the launch id through the
// worker's whole tree.
const Marker = "POOL_RUN"

// maxFile bounds what is parsed, in bytes; the script writes far less.
const maxFile = 4096

// Ident names one process beyond its number. Start (field 22 of
// /proc/PID/stat, in clock ticks since the boot) and the boot id are empty
// where the system has none; the number is then all there is.
type Ident struct {
	PID   int
	Start string
}

// PID is what worker.pid says.
type PID struct {
	LaunchID string
	Worker   Ident
	Keeper   Ident
	Boot     string // boot id of the system both live on
	Started  time.Time
}

// Exit is what worker.exit says. Code is the shell's: 128+n after signal n.
type Exit struct {
	LaunchID string
	Code     int
	At       time.Time
}

// ParsePID reads a worker.pid. Lines it does not know are passed over.
func ParsePID(b []byte) (PID, error) {
	f, err := fields(b)
	if err != nil {
		return PID{}, fmt.Errorf("worker.pid: %w", err)
	}
	p := PID{LaunchID: f["launch"], Boot: f["boot"], Started: f.time("at")}
	p.Worker = Ident{f.pid("pid"), f["start"]}
	p.Keeper = Ident{f.pid("keeper"), f["keeper_start"]}
	switch {
	case !ValidID(p.LaunchID):
		return PID{}, fmt.Errorf("worker.pid: no launch id")
	case p.Worker.PID == 0 || p.Keeper.PID == 0:
		return PID{}, fmt.Errorf("worker.pid: no process id of a worker and its keeper")
	case !digits(p.Worker.Start) || !digits(p.Keeper.Start):
		return PID{}, fmt.Errorf("worker.pid: a start time is not a number")
	case p.Started.IsZero():
		return PID{}, fmt.Errorf("worker.pid: no time of the start")
	}
	return p, nil
}

// ParseExit reads a worker.exit. Lines it does not know are passed over.
func ParseExit(b []byte) (Exit, error) {
	f, err := fields(b)
	if err != nil {
		return Exit{}, fmt.Errorf("worker.exit: %w", err)
	}
	code, err := strconv.ParseUint(f["code"], 10, 8)
	e := Exit{LaunchID: f["launch"], Code: int(code), At: f.time("at")}
	switch {
	case !ValidID(e.LaunchID):
		return Exit{}, fmt.Errorf("worker.exit: no launch id")
	case err != nil:
		return Exit{}, fmt.Errorf("worker.exit: no exit code")
	case e.At.IsZero():
		return Exit{}, fmt.Errorf("worker.exit: no time of the end")
	}
	return e, nil
}

// Result tells the exit in the contract's words. A shell cannot tell a process
// that was ended by signal n from one that exited with 128+n, so codes 129 to
// 192 are reported as that signal.
func (e Exit) Result() providers.Exit {
	x := providers.Exit{Code: e.Code, Known: true, At: e.At}
	if e.Code > 128 && e.Code <= 192 {
		x.Signal = e.Code - 128
	}
	return x
}

// Verdict is the first word of the script's answer.
type Verdict string

const (
	Started  Verdict = "started"  // PID says which
	Same     Verdict = "same"     // LaunchID was launched before; it may have ended
	Conflict Verdict = "conflict" // LaunchID still lives, and is another one
	Stale    Verdict = "stale"    // Epoch is in force, and is higher
	Raised   Verdict = "epoch"    // Epoch is in force now
	Failed   Verdict = "failed"   // nothing was started; Why says why
)

// Answer is what the script answers on its output.
type Answer struct {
	Verdict  Verdict
	PID      int
	LaunchID string
	Epoch    int64
	Why      string
}

// ParseAnswer reads the script's one line. An error means that nothing is
// known: the worker may have started.
func ParseAnswer(line string) (Answer, error) {
	line = strings.TrimSpace(line)
	unclear := fmt.Errorf("the launch script's answer is unclear: %.60q", line)
	if len(line) > maxFile || strings.ContainsAny(line, "\n\r\x00") {
		return Answer{}, unclear
	}
	word, rest, _ := strings.Cut(line, " ")
	a := Answer{Verdict: Verdict(word)}
	ok := true
	switch a.Verdict {
	case Started:
		a.PID = record{"pid": rest}.pid("pid")
		ok = a.PID != 0
	case Same, Conflict:
		a.LaunchID = rest
		ok = ValidID(rest)
	case Stale, Raised:
		epoch, err := strconv.ParseInt(rest, 10, 64)
		a.Epoch, ok = epoch, err == nil && epoch >= 0
	case Failed:
		a.Why = strings.ToValidUTF8(rest, "?")
	default:
		ok = false
	}
	if !ok {
		return Answer{}, unclear
	}
	return a, nil
}

// ParseEpoch reads an epoch file. An empty or broken one is epoch 0, as the
// script takes it.
func ParseEpoch(b []byte) int64 {
	epoch, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 63)
	if err != nil {
		return 0
	}
	return int64(epoch)
}

// ValidID tells whether the script takes a launch id: 1 to 128 characters of
// A–Z a–z 0–9 . _ and -.
func ValidID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, c := range []byte(id) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// SignalNumber returns the number of a signal on this system.
func SignalNumber(s providers.Signal) (syscall.Signal, bool) {
	n, ok := signals[s]
	return n, ok
}

var signals = map[providers.Signal]syscall.Signal{
	providers.TERM: syscall.SIGTERM,
	providers.KILL: syscall.SIGKILL,
	providers.STOP: syscall.SIGSTOP,
	providers.CONT: syscall.SIGCONT,
}

type record map[string]string

// fields splits key=value lines; the first of a key counts.
func fields(b []byte) (record, error) {
	if len(b) > maxFile {
		return nil, fmt.Errorf("%d bytes are too many", len(b))
	}
	if len(b) == 0 || b[len(b)-1] != '\n' {
		return nil, fmt.Errorf("empty or cut off")
	}
	f := record{}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if _, seen := f[key]; ok && !seen {
			f[key] = value
		}
	}
	return f, nil
}

// pid returns a process id that is safe to signal, else 0: never 1, and
// nothing that kill(2) would take for a group.
func (f record) pid(key string) int {
	n, err := strconv.ParseUint(f[key], 10, 31)
	if err != nil || n < 2 {
		return 0
	}
	return int(n)
}

// time returns a time in Unix seconds, else the zero time.
func (f record) time(key string) time.Time {
	n, err := strconv.ParseUint(f[key], 10, 40)
	if err != nil || n == 0 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0)
}

func digits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
