package outposttest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/outpostpool/pool/worker/outpost"
)

// Version is what the stand-in answers to --version, in the CLI's form (facts
// outposts.md 1.3).
const Version = "devin 3000.11.3 (double)"

// workerFlags are the flags and variables of facts outposts.md 1.2. A flag
// beats its variable.
type workerFlags struct {
	outpost  string
	session  string
	once     bool
	acceptor string
	token    string
	apiURL   string
	cacheDir string
	gateway  string
	poll     time.Duration
}

// queueFlag is the name of the flag that chooses the queue (facts 1.3).
func (h habits) queueFlag() string {
	if h.onlyPool {
		return "pool"
	}
	return "outpost"
}

// parseFlags reads what follows `start`. flag.ErrHelp after the help was
// printed to stdout.
func parseFlags(args []string, env environment, h habits, stdout io.Writer) (workerFlags, error) {
	f := workerFlags{
		acceptor: env["DEVIN_WORKER_ACCEPTOR_ID"],
		token:    env["DEVIN_OUTPOSTS_TOKEN"],
		apiURL:   env["DEVIN_API_URL"],
		cacheDir: env["DEVIN_WORKER_CACHE_DIR"],
		gateway:  env["DEVIN_OUTPOST_GATEWAY_URL"],
		poll:     5 * time.Second,
	}
	set := flag.NewFlagSet("start", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&f.outpost, h.queueFlag(), "", "`NAME_OR_ID` of the queue to serve")
	set.StringVar(&f.session, "session", "", "claim and serve this one session `ID`, then exit")
	set.StringVar(&f.session, "session-id", "", "the same as --session, with an `ID`")
	set.BoolVar(&f.once, "once", false, "exit after one session")
	set.StringVar(&f.acceptor, "acceptor-id", f.acceptor, "stable `ID` for claims [env: DEVIN_WORKER_ACCEPTOR_ID]")
	// A default shows in the help: the token must not.
	set.Func("token", "service user's `TOKEN` [env: DEVIN_OUTPOSTS_TOKEN]", func(v string) error { f.token = v; return nil })
	set.StringVar(&f.apiURL, "api-url", f.apiURL, "API origin `URL` [env: DEVIN_API_URL]")
	set.StringVar(&f.cacheDir, "cache-dir", f.cacheDir, "`DIR` of the cache [env: DEVIN_WORKER_CACHE_DIR]")
	set.StringVar(&f.gateway, "gateway-url", f.gateway, "gateway `URL` if a claim names none [env: DEVIN_OUTPOST_GATEWAY_URL]")
	set.Func("poll-interval-secs", "`SECONDS` between polls (default 5)", func(v string) error {
		seconds, err := strconv.Atoi(v)
		f.poll = time.Duration(seconds) * time.Second
		if err == nil && seconds < 1 {
			err = errors.New("want at least 1")
		}
		return err
	})
	for _, ignored := range []string{"static-base-url", "remote-binary-sha", "pty-bridge-port"} {
		set.String(ignored, "", "accepted; the double has no use for this `VALUE`")
	}
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			printHelp(set, stdout)
		}
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q found", set.Arg(0))
	}
	if h.poll > 0 {
		f.poll = h.poll
	}
	if f.cacheDir == "" {
		f.cacheDir = filepath.Join(env["HOME"], ".devin", "worker", "cache")
	}
	return f, f.check(h)
}

// check refuses what would go wrong later. The real CLI asks for a login or
// makes an outpost when there is no token (facts 1.4); a double never does.
func (f workerFlags) check(h habits) error {
	if f.token == "" {
		return errors.New("no token: set DEVIN_OUTPOSTS_TOKEN or pass --token")
	}
	if f.outpost == "" {
		return fmt.Errorf("no outpost: pass --%s", h.queueFlag())
	}
	origin, _, err := outpost.NormalizeURL(f.apiURL)
	if err != nil {
		return err
	}
	// The CLI takes no path (facts 1.2), so a supervisor that passes one on
	// must not get away with it here.
	if f.apiURL != "" && strings.TrimSuffix(f.apiURL, "/") != origin {
		return fmt.Errorf("the API URL must be the origin alone, like %s", origin)
	}
	if !filepath.IsAbs(f.cacheDir) {
		return fmt.Errorf("cache dir %q is not absolute: set HOME or --cache-dir", f.cacheDir)
	}
	return nil
}

func printHelp(set *flag.FlagSet, to io.Writer) {
	fmt.Fprint(to, "Start a worker that serves the sessions of an outpost\n\nUsage: devin worker start [OPTIONS]\n\nOptions:\n")
	set.VisitAll(func(f *flag.Flag) {
		value, about := flag.UnquoteUsage(f)
		fmt.Fprintf(to, "      --%-36s %s\n", joined(f.Name, value), about)
	})
}

func joined(name, value string) string {
	if value == "" {
		return name
	}
	return name + " <" + value + ">"
}
