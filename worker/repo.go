package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/outpostpool/pool/providers"
)

// Repo is a repository to have in the workspace's repos/.
type Repo struct {
	URL    string // https, ssh, file, or git@host:path
	Branch string // empty: the remote's default
	Depth  int    // 0: the whole history
}

var repoName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// Name is the folder below repos/: the last part of the URL without ".git".
// Empty when the URL yields none.
func (r Repo) Name() string {
	path := strings.TrimRight(r.URL, "/")
	if i := strings.LastIndexAny(path, "/:"); i >= 0 {
		path = path[i+1:]
	}
	name := strings.TrimSuffix(path, ".git")
	if !repoName.MatchString(name) {
		return ""
	}
	return name
}

// parsed is nil for what is no URL, such as git@host:path.
func (r Repo) parsed() *url.URL {
	parsed, err := url.Parse(r.URL)
	if err != nil || parsed.Host == "" {
		return nil
	}
	return parsed
}

func (r Repo) password() string {
	if u := r.parsed(); u != nil && u.User != nil {
		password, set := u.User.Password()
		if !set && strings.HasPrefix(u.Scheme, "http") {
			return u.User.Username() // https://TOKEN@host is a common form
		}
		return password
	}
	return ""
}

// shown is the URL as it may be seen: in arguments, logs and .git/config.
func (r Repo) shown() string {
	u := r.parsed()
	if u == nil || u.User == nil {
		return r.URL
	}
	if strings.HasPrefix(u.Scheme, "http") {
		u.User = nil
	} else {
		u.User = url.User(u.User.Username()) // ssh needs the name
	}
	return u.String()
}

func (r Repo) check(p Preparation, before []Repo) error {
	name := r.Name()
	if name == "" {
		return fmt.Errorf("%q ends in no usable name for a folder", r.shown())
	}
	if r.Depth < 0 {
		return fmt.Errorf("%s: depth %d is below 0", name, r.Depth)
	}
	if strings.HasPrefix(r.Branch, "-") {
		return fmt.Errorf("%s: %q is no branch", name, r.Branch)
	}
	for _, other := range before {
		if strings.EqualFold(other.Name(), name) {
			return fmt.Errorf("%s and %s would both go into repos/%s; leave one out", other.shown(), r.shown(), name)
		}
	}
	if u := r.parsed(); u != nil && u.Scheme == "http" && r.credential(p).secret != "" && !isLoopback(u.Hostname()) {
		return fmt.Errorf("%s: a token would travel unencrypted; use https", r.shown())
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// credential is what git is given for one host.
type credential struct{ host, user, secret string }

// credential prefers what the URL holds. Only http and https use one.
func (r Repo) credential(p Preparation) credential {
	u := r.parsed()
	if u == nil || (u.Scheme != "http" && u.Scheme != "https") {
		return credential{}
	}
	c := credential{host: u.Scheme + "://" + u.Host, user: p.GitUsername, secret: p.GitToken}
	if u.User != nil {
		c.secret = r.password()
		if _, set := u.User.Password(); set {
			c.user = u.User.Username()
		}
	}
	if c.user == "" {
		c.user = "x-access-token" // any name will do beside a token, on the known hosts
	}
	return c
}

// gitEnvironment reaches git and its children alone. The credential goes to
// its one host, also after a redirect; no helper of a configuration file,
// which a session may have written, gets to see or store it.
func gitEnvironment(c credential) map[string]string {
	env := map[string]string{
		"LC_ALL": "C", "LANGUAGE": "C", // rejected reads git's messages
		"GIT_TERMINAL_PROMPT": "0",
		"GIT_ASKPASS":         "true",
		"SSH_ASKPASS":         "true",
		"GIT_SSH_COMMAND":     "ssh -o BatchMode=yes",
	}
	if c.secret == "" {
		return env
	}
	config := [][2]string{
		{"credential.helper", ""}, // forgets those before
		{"credential." + c.host + ".helper",
			`!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$POOL_GIT_USERNAME" "$POOL_GIT_SECRET"; }; f`},
	}
	env["GIT_CONFIG_GLOBAL"] = "/dev/null"
	env["GIT_CONFIG_NOSYSTEM"] = "1"
	env["GIT_CONFIG_COUNT"] = strconv.Itoa(len(config))
	for i, entry := range config {
		env["GIT_CONFIG_KEY_"+strconv.Itoa(i)] = entry[0]
		env["GIT_CONFIG_VALUE_"+strconv.Itoa(i)] = entry[1]
	}
	env["POOL_GIT_USERNAME"], env["POOL_GIT_SECRET"] = c.user, c.secret
	return env
}

// findScript exits 10 when the clone is there. What an interrupted clone left
// has another name and is cleared away.
const findScript = `mkdir -p repos || exit
if [ -e "repos/$1/.git" ]; then exit 10; fi
if [ -e "repos/$1" ] && ! rmdir "repos/$1"; then exit 11; fi
rm -rf "repos/.$1.partial"`

const (
	cloneThere    = 10
	cloneObstacle = 11
)

func (s steps) clone(ctx context.Context, r Repo) error {
	name := r.Name()
	step := "repository " + name
	exit, last, err := s.exec(ctx, []string{"sh", "-c", findScript, "pool-find", name}, nil)
	switch {
	case err == nil && exit.Code == cloneThere:
		return nil
	case err == nil && exit.Code == cloneObstacle:
		return &PrepareError{Step: step, Kind: KindInvalid, Last: last,
			Err: fmt.Errorf("repos/%s is there and is no clone", name), Hint: "move it away"}
	}
	if err := s.failed(ctx, step, exit, last, err); err != nil {
		return err
	}
	partial := "repos/." + name + ".partial"
	args := []string{"git", "clone", "--template="}
	if r.Branch != "" {
		args = append(args, "--branch", r.Branch)
	}
	if r.Depth > 0 {
		args = append(args, "--depth", strconv.Itoa(r.Depth))
	}
	args = append(args, "--", r.shown(), partial)
	exit, last, err = s.exec(ctx, args, gitEnvironment(r.credential(s.p)))
	if err := s.failed(ctx, step, exit, last, err); err != nil {
		return rejected(err, exit, r, s.p)
	}
	exit, last, err = s.exec(ctx, []string{"mv", partial, "repos/" + name}, nil)
	return s.failed(ctx, step, exit, last, err)
}

// gitFailure is the exit code with which git gives up.
const gitFailure = 128

// rejections are what git and ssh say, in the C locale, when the other side
// did not accept who we are. A host that hides private repositories from
// strangers answers 404; with no token at all that is a matter of credentials
// as likely as of spelling, and git does not tell them apart.
var rejections = []string{
	"Authentication failed for",
	"could not read Username for",
	"could not read Password for",
	"Permission denied (publickey",
	"The requested URL returned error: 401",
	"The requested URL returned error: 403",
}

// rejected makes a git auth error of a failed clone where git says so.
func rejected(err error, exit providers.Exit, r Repo, p Preparation) error {
	var failed *PrepareError
	if !errors.As(err, &failed) || failed.Kind != KindFailed || exit.Code != gitFailure {
		return err
	}
	text := strings.Join(failed.Last, "\n")
	for _, message := range rejections {
		if !strings.Contains(text, message) {
			continue
		}
		failed.Kind = KindGitAuth
		failed.Hint = "give a token that may read it: worker.git_token_env or git_token_file"
		if r.credential(p).secret != "" {
			failed.Hint = "the git token is rejected: renew it, or let it read this repository"
		}
		if r.parsed() == nil || r.parsed().Scheme == "ssh" {
			failed.Hint = "no ssh key is accepted; use an https URL with a git token"
		}
	}
	return failed
}
