package outposttest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/outpostpool/pool/worker/outpost"
)

// RunWorker is the stand-in for the Devin CLI as a program, the hidden `pool
// __worker`. It takes what `devin` takes: `--version`, `[worker] start --help`
// and `[worker] start …`. TERM and INT stop it, with exit code 0. It ends with
// 1 when it cannot serve and with 2 when it was called wrongly.
// Standard input is never read: the CLI asks only on a terminal.
func RunWorker(ctx context.Context, args, env []string, _ io.Reader, stdout, stderr io.Writer) int {
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	if h, err := readHabits(readEnvironment(env)); err == nil && h.ignoreTerm {
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
	} else {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
		defer stop()
	}
	return Worker{Args: args, Env: env, Dir: dir, Stdout: stdout, Stderr: stderr}.Run(ctx)
}

// Worker is one life of a stand-in. Inside a test many can share a process,
// each with its own Dir, over in-memory connections and on fake time.
type Worker struct {
	Args   []string
	Env    []string // NAME=value; the whole environment
	Dir    string   // absolute; sessions work in it
	HTTP   *http.Client
	Stdout io.Writer
	Stderr io.Writer
}

// Run lives until ctx ends, which is what TERM is to a process, or until the
// worker has a reason of its own. It returns the exit code.
func (w Worker) Run(ctx context.Context) int {
	env := readEnvironment(w.Env)
	h, err := readHabits(env)
	if err != nil {
		return w.wrong(err)
	}
	args := w.Args
	if len(args) > 0 && args[0] == "worker" {
		args = args[1:]
	}
	switch {
	case len(args) > 0 && args[0] == "--version":
		fmt.Fprintln(w.Stdout, Version)
		return 0
	case len(args) == 0 || args[0] != "start":
		return w.wrong(errors.New("want: worker start, or --version"))
	}
	f, err := parseFlags(args[1:], env, h, w.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return w.wrong(err)
	}
	l := &life{worker: w, flags: f, habits: h, instance: instanceID()}
	return l.run(ctx)
}

func (w Worker) wrong(err error) int {
	fmt.Fprintln(w.Stderr, "error:", err)
	return 2
}

func instanceID() string {
	var b [8]byte
	rand.Read(b[:])
	return strconv.Itoa(os.Getpid()) + "-" + hex.EncodeToString(b[:])
}

// life is what a running worker knows.
type life struct {
	worker   Worker
	flags    workerFlags
	habits   habits
	instance string
	api      *outpost.Client
	http     *http.Client
	outpost  outpost.Outpost

	output sync.Mutex
}

func (l *life) run(ctx context.Context) int {
	if l.habits.ignoreTerm {
		ctx = context.WithoutCancel(ctx)
	}
	if err := l.settle(); err != nil {
		fmt.Fprintln(l.worker.Stderr, "error:", err)
		return 1
	}
	defer l.http.CloseIdleConnections()
	if code, ends := l.misbehaveAtStart(); ends {
		return code
	}
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	if l.habits.exits {
		stop := time.AfterFunc(l.habits.exitAfter, cancel)
		defer stop.Stop()
	}
	var chatting sync.WaitGroup
	chatting.Go(func() { l.chatter(working) })
	err := l.work(working)
	stopped := ctx.Err() != nil
	if stopped && l.habits.stopTakes > 0 {
		l.print("stopping, which takes %s", l.habits.stopTakes)
		time.Sleep(l.habits.stopTakes)
	}
	cancel()
	chatting.Wait()
	return l.exitCode(err, stopped)
}

func (l *life) exitCode(err error, stopped bool) int {
	switch {
	case stopped:
		l.print("stopped")
		return 0
	case l.habits.exits && errors.Is(err, context.Canceled):
		return l.habits.exit
	case err != nil:
		fmt.Fprintln(l.worker.Stderr, "error:", err)
		return 1
	}
	return 0
}

// settle makes ready what the work needs; it asks nobody anything.
func (l *life) settle() (err error) {
	if l.flags.acceptor == "" {
		if l.flags.acceptor, err = l.ownAcceptor(); err != nil {
			return err
		}
	}
	inner := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 2}}
	if l.worker.HTTP != nil {
		inner = *l.worker.HTTP
	}
	if inner.Transport == nil {
		inner.Transport = http.DefaultTransport
	}
	inner.Transport = &signing{life: l, next: inner.Transport}
	l.http = &inner
	l.api = outpost.New(outpost.Options{
		APIURL:    l.flags.apiURL,
		Token:     func(context.Context) (string, error) { return l.flags.token, nil },
		HTTP:      l.http,
		UserAgent: Version,
	})
	return nil
}

// ownAcceptor is the id that a CLI without --acceptor-id makes once and keeps
// in its data directory (facts outposts.md 1.2).
func (l *life) ownAcceptor() (string, error) {
	file := filepath.Join(l.dataDir(), "acceptor_id")
	if kept, err := os.ReadFile(file); err == nil {
		return strings.TrimSpace(string(kept)), nil
	}
	if err := os.MkdirAll(l.dataDir(), 0o700); err != nil {
		return "", err
	}
	id := "worker-" + instanceID()
	return id, os.WriteFile(file, []byte(id+"\n"), 0o600)
}

// dataDir holds the cache and, next to it, the sessions (facts 1.5).
func (l *life) dataDir() string { return filepath.Dir(l.flags.cacheDir) }

func (l *life) misbehaveAtStart() (code int, ends bool) {
	if l.habits.crash {
		l.print("about to crash")
		fmt.Fprintln(l.worker.Stderr, "fatal: crashed on purpose")
		return 1, true
	}
	if l.habits.printToken {
		l.leakToken()
	}
	if l.habits.fork > 0 {
		if err := l.leaveChild(); err != nil {
			fmt.Fprintln(l.worker.Stderr, "error:", err)
			return 1, true
		}
	}
	return 0, false
}

// print writes one line of the worker's own.
func (l *life) print(format string, args ...any) {
	l.raw([]byte(fmt.Sprintf(format, args...) + "\n"))
}

func (l *life) raw(b []byte) {
	l.output.Lock()
	defer l.output.Unlock()
	l.worker.Stdout.Write(b)
}

// platform is this machine's in the words of the API.
func platform() string {
	if runtime.GOOS == "darwin" {
		return "macos"
	}
	return runtime.GOOS
}

// signing adds what tells the double one life from another. A copy, since the
// contract of RoundTripper forbids changing the request.
type signing struct {
	life *life
	next http.RoundTripper
}

func (s *signing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(HeaderInstance, s.life.instance)
	r.Header.Set(HeaderAcceptor, s.life.flags.acceptor)
	r.Header.Set(HeaderSent, strconv.FormatInt(time.Now().UnixNano(), 10))
	return s.next.RoundTrip(r)
}

func (s *signing) CloseIdleConnections() {
	if closer, is := s.next.(interface{ CloseIdleConnections() }); is {
		closer.CloseIdleConnections()
	}
}
