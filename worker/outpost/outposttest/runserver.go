package outposttest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// RunServer is the double as a program, the hidden `pool __outpost`:
//
//	--listen 127.0.0.1:0     only loopback is served
//	--outpost NAME:PLATFORM  repeatable; default demo, for this machine
//	--token-env NAME         repeatable; the variable holds accepted tokens,
//	                         separated by commas. None: any token
//	--machine-token-env NAME the same for tokens without the orchestrator's scope
//	--sessions N --every 2s --session-for 3s..6s   feed so many sessions
//	--claim-ttl 300s --seed N
//
// Its first line on stdout is its URL. It ends with ctx, TERM or INT, with 0,
// and with 2 when it was called wrongly.
func RunServer(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	set, err := parseServer(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "outpost double:", err)
		return 2
	}
	if err := set.run(ctx, stdout); err != nil {
		fmt.Fprintln(stderr, "outpost double:", err)
		return 1
	}
	return 0
}

type serverSettings struct {
	listen  string
	options Options
	feed    Feed
}

func parseServer(args []string, stderr io.Writer) (serverSettings, error) {
	set := serverSettings{}
	flags := flag.NewFlagSet("__outpost", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&set.listen, "listen", "127.0.0.1:0", "loopback `address`")
	flags.DurationVar(&set.options.ClaimTTL, "claim-ttl", ClaimTTL, "life of a claim")
	flags.Uint64Var(&set.options.Seed, "seed", 1, "of ids and dice")
	flags.IntVar(&set.feed.Sessions, "sessions", 0, "to feed, in all")
	flags.DurationVar(&set.feed.Every, "every", 2*time.Second, "between two sessions")
	set.feed.For = [2]time.Duration{3 * time.Second, 6 * time.Second}
	flags.Func("session-for", "`shortest..longest` service (default 3s..6s)", func(text string) (err error) {
		set.feed.For, err = parseRange(text)
		return err
	})
	flags.Func("outpost", "`name:platform`, repeatable", func(text string) error {
		name, platform, _ := strings.Cut(text, ":")
		if name == "" {
			return errors.New("want name:platform")
		}
		set.options.Outposts = append(set.options.Outposts, Outpost{Name: name, Platform: platform})
		return nil
	})
	flags.Func("token-env", "`variable` with accepted tokens, repeatable", tokensInto(&set.options.Tokens))
	flags.Func("machine-token-env", "`variable` with tokens for workers only, repeatable", tokensInto(&set.options.MachineTokens))
	if err := flags.Parse(args); err != nil {
		return set, err
	}
	if flags.NArg() > 0 {
		return set, fmt.Errorf("unexpected %q", flags.Arg(0))
	}
	if len(set.options.Outposts) == 0 {
		set.options.Outposts = []Outpost{{Name: "demo", Platform: platform()}}
	}
	return set, nil
}

// tokensInto takes the name of a variable, so that no token stands in argv.
func tokensInto(tokens *[]string) func(string) error {
	return func(name string) error {
		value := os.Getenv(name)
		if value == "" {
			return fmt.Errorf("the variable %s is empty", name)
		}
		*tokens = append(*tokens, strings.Split(value, ",")...)
		return nil
	}
}

func parseRange(text string) (span [2]time.Duration, err error) {
	low, high, isRange := strings.Cut(text, "..")
	if !isRange {
		high = low
	}
	for i, part := range []string{low, high} {
		if span[i], err = time.ParseDuration(part); err != nil {
			return span, err
		}
	}
	if span[0] < 0 || span[1] < span[0] {
		return span, fmt.Errorf("%s is no range", text)
	}
	return span, nil
}

func (set serverSettings) run(ctx context.Context, stdout io.Writer) error {
	host, _, err := net.SplitHostPort(set.listen)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen %s: the double guards nothing and serves only loopback", set.listen)
	}
	listener, err := net.Listen("tcp", set.listen)
	if err != nil {
		return err
	}
	double := New(set.options)
	server := &http.Server{Handler: double}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fed := make(chan error, 1)
	go func() { fed <- double.Feed(ctx, set.feed) }()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-ctx.Done()
		double.Close()
		server.Close()
	}()
	fmt.Fprintf(stdout, "http://%s\n", listener.Addr())
	if err = server.Serve(listener); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	cancel()
	<-closed
	return errors.Join(err, <-fed)
}
