package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/worker/logs"
)

// Preparation is what a sandbox gets before its first worker.
type Preparation struct {
	Environment map[string]string // of exec: without any secret
	Script      string            // for sh, in the workspace; empty: none
	Repos       []Repo
	GitUsername string // empty: x-access-token
	GitToken    string // reaches git alone; empty: repositories are public
}

// Kind says what kind of failure a PrepareError is.
type Kind string

const (
	KindFailed  Kind = "failed"    // trying again, or in another sandbox, may help
	KindGitAuth Kind = "git auth"  // the git token is rejected: a person is needed
	KindTools   Kind = "tools"     // the image lacks something that cannot be installed here
	KindTimeout Kind = "timeout"   // the time limit passed
	KindInvalid Kind = "invalid"   // the configuration cannot be carried out
	KindSandbox Kind = "provider"  // the sandbox did not answer: see the error's class
	KindAborted Kind = "cancelled" // we were told to stop
)

// PrepareError is a preparation that failed.
type PrepareError struct {
	Step string // "tools", "the prepare script", "repository app"
	Kind Kind
	Err  error
	Hint string   // what to do next; may be empty
	Last []string // the last lines of output, without secrets
}

func (e *PrepareError) Error() string {
	text := fmt.Sprintf("prepare: %s: %v", e.Step, e.Err)
	if len(e.Last) > 0 {
		text += ": " + strings.Join(e.Last, " | ")
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

func (e *PrepareError) Unwrap() error { return e.Err }

// Holds reports whether the slot waits for a person: trying again in this or
// another sandbox would fail in the same way.
func (e *PrepareError) Holds() bool { return e.Kind == KindGitAuth || e.Kind == KindInvalid }

// shownLines is how many lines of output an error carries.
const shownLines = 5

// Prepare makes a sandbox ready for its first worker: git and CA certificates
// where the image lacks them, the prepare script, the repositories. Everything
// it does is harmless when done again. Output goes to out, without secrets.
// The time limit is ctx's. Errors are of type *PrepareError.
func Prepare(ctx context.Context, sandbox providers.Sandbox, p Preparation, out io.Writer) error {
	for i, repo := range p.Repos {
		if err := repo.check(p, p.Repos[:i]); err != nil {
			return &PrepareError{Step: "repositories", Kind: KindInvalid, Err: err}
		}
	}
	// Configured URLs with a password in them make more secrets than one.
	secrets := []string{p.GitToken}
	for _, repo := range p.Repos {
		secrets = append(secrets, repo.password())
	}
	// What is too short to be hidden in text is not a token of any git host.
	redactor, _ := logs.NewRedactor(withoutEmpty(secrets))
	s := steps{sandbox: sandbox, p: p, out: out, redactor: redactor}
	if err := s.tools(ctx); err != nil {
		return err
	}
	if err := s.script(ctx); err != nil {
		return err
	}
	for _, repo := range p.Repos {
		if err := s.clone(ctx, repo); err != nil {
			return err
		}
	}
	return nil
}

func withoutEmpty(all []string) (some []string) {
	for _, s := range all {
		if s != "" {
			some = append(some, s)
		}
	}
	return some
}

type steps struct {
	sandbox  providers.Sandbox
	p        Preparation
	out      io.Writer
	redactor *logs.Redactor
}

// toolsScript exits 0 when git and CA certificates are there at the end. It
// names what is missing in its last line.
const toolsScript = `missing=
command -v git >/dev/null 2>&1 || missing=git
certificates() {
	for file in "$SSL_CERT_FILE" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
		/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
		[ -n "$file" ] && [ -r "$file" ] && return 0
	done
	return 1
}
certificates || missing="$missing ca-certificates"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ]; then
	echo "missing: $missing (not root here)" >&2
	exit 90
fi
if command -v apt-get >/dev/null 2>&1; then
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing
elif command -v apk >/dev/null 2>&1; then
	apk add --no-cache $missing
elif command -v dnf >/dev/null 2>&1; then
	dnf install -y -q $missing
else
	echo "missing: $missing (no apt-get, apk or dnf here)" >&2
	exit 90
fi || { echo "missing: $missing (installing failed)" >&2; exit 91; }
command -v git >/dev/null 2>&1 || { echo "missing: git" >&2; exit 90; }
`

const toolsCannot = 90

func (s steps) tools(ctx context.Context) error {
	const step = "git and CA certificates"
	exit, last, err := s.exec(ctx, []string{"sh", "-c", toolsScript}, nil)
	if err != nil || exit.Code == 0 {
		return s.failed(ctx, step, exit, last, err)
	}
	kind := KindFailed
	if exit.Code == toolsCannot {
		kind = KindTools
	}
	return &PrepareError{Step: step, Kind: kind, Err: fmt.Errorf("exit code %d", exit.Code), Last: last,
		Hint: "put them into the image"}
}

func (s steps) script(ctx context.Context) error {
	if strings.TrimSpace(s.p.Script) == "" {
		return nil
	}
	exit, last, err := s.exec(ctx, []string{"sh", "-c", s.p.Script}, nil)
	return s.failed(ctx, "the prepare script", exit, last, err)
}

// exec runs one command in the workspace and returns its last lines.
func (s steps) exec(ctx context.Context, args []string, more map[string]string) (providers.Exit, []string, error) {
	tail := tailBuffer{limit: 16 << 10}
	hidden := lineWriter{write: func(line string) {
		line = s.redactor.String(line)
		tail.Write([]byte(line))
		io.WriteString(s.out, line) // a log that fails is no reason to stop
	}}
	both := &lockedWriter{write: hidden.Write}
	cmd := providers.Cmd{Args: args, Env: s.p.Environment, Stdout: both, Stderr: both}
	for name, value := range more {
		cmd = cmd.WithEnv(name, value)
	}
	exit, err := s.sandbox.Exec(ctx, cmd)
	both.mu.Lock()
	defer both.mu.Unlock()
	hidden.end()
	return exit, tail.lastLines(shownLines), err
}

// failed makes the error of a step; nil when it succeeded.
func (s steps) failed(ctx context.Context, step string, exit providers.Exit, last []string, err error) error {
	switch {
	case err == nil && exit.Code == 0 && exit.Known:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &PrepareError{Step: step, Kind: KindTimeout, Err: errors.New("took longer than its time limit"), Last: last}
	case ctx.Err() != nil:
		return &PrepareError{Step: step, Kind: KindAborted, Err: ctx.Err()}
	case err != nil:
		return &PrepareError{Step: step, Kind: KindSandbox, Err: err, Last: last}
	case !exit.Known:
		return &PrepareError{Step: step, Kind: KindFailed, Err: errors.New("ended with an unknown exit code"), Last: last}
	}
	return &PrepareError{Step: step, Kind: KindFailed, Err: fmt.Errorf("exit code %d", exit.Code), Last: last}
}
