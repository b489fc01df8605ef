// Package worker is one worker's life in one sandbox: its environment and
// command, the preparation of the sandbox, and the two ways to stop it.
package worker

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/outpostpool/pool/worker/logs"
)

// Network is how a sandbox reaches the outside.
type Network struct {
	Proxy   string // URL; may hold a password
	NoProxy string
	CAFile  string // absolute path in the sandbox
}

// EnvSpec is all that a worker's environment is made of. Nothing else gets in.
type EnvSpec struct {
	Variables map[string]string // of the config
	Secrets   map[string]string // of the config's secret_env, with their values
	Token     string            // empty: a provider's secret reference brings it
	Acceptor  string
	APIURL    string // an origin without a path (facts outposts.md 1.2)
	Home      string
	Path      string
	Workspace string // absolute path in the sandbox
	// CacheDir lies outside the workspace, since per-session credentials lie
	// beside it (facts outposts.md 1.5). Absolute path in the sandbox.
	CacheDir   string
	ChromePath string // may be empty
	Display    string // may be empty
	Network    Network
}

const tokenVariable = "DEVIN_OUTPOSTS_TOKEN"

// tokenVariables are what the token is called by the CLI and in the vendors'
// guides (facts outposts.md 1.2).
var tokenVariables = []string{tokenVariable, "DEVIN_API_TOKEN", "DEVIN_REMOTE_SESSION_TOKEN"}

// caVariables are what the common programs read a CA bundle's path from.
var caVariables = []string{
	"SSL_CERT_FILE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT", "AWS_CA_BUNDLE",
}

// Environment is the whole environment of the worker. Configured variables may
// change everything but the worker's identity, its token and its places.
func Environment(s EnvSpec) map[string]string {
	env := map[string]string{"LANG": "C.UTF-8", "PATH": s.Path}
	s.Network.addTo(env)
	set(env, "DEVIN_CHROME_PATH", s.ChromePath)
	set(env, "DISPLAY", s.Display)
	maps.Copy(env, s.Variables)
	maps.Copy(env, s.Secrets)
	set(env, tokenVariable, s.Token)
	set(env, "DEVIN_WORKER_ACCEPTOR_ID", s.Acceptor)
	set(env, "DEVIN_API_URL", s.APIURL)
	set(env, "HOME", s.Home)
	set(env, "DEVIN_WORKER_CACHE_DIR", s.CacheDir)
	return env
}

// ExecEnvironment is what exec and prepare get: the worker's environment with
// no secret in it, and WORKSPACE. A variable goes if it is a secret, holds one
// or has a token's name; a proxy's URL stays without its password.
func ExecEnvironment(s EnvSpec) map[string]string {
	open := s
	open.Token, open.Secrets = "", nil
	open.Network.Proxy = withoutUser(s.Network.Proxy)
	env := Environment(open)
	for name := range s.Secrets {
		delete(env, name)
	}
	for _, name := range tokenVariables {
		delete(env, name)
	}
	secrets := Secrets(s)
	maps.DeleteFunc(env, func(_, value string) bool {
		return slices.ContainsFunc(secrets, func(secret string) bool {
			// A shorter value also occurs by chance; it goes by its name alone.
			return len(secret) >= logs.MinSecret && strings.Contains(value, secret)
		})
	})
	env["WORKSPACE"] = s.Workspace
	return env
}

// Secrets are the values that no log may show: the token, the configured
// secrets, the proxy's password, and whatever has a token's name.
func Secrets(s EnvSpec) []string {
	secrets := slices.Collect(maps.Values(s.Secrets))
	secrets = append(secrets, s.Token)
	for _, name := range tokenVariables {
		secrets = append(secrets, s.Variables[name])
	}
	if proxy, err := url.Parse(s.Network.Proxy); err == nil && proxy.User != nil {
		password, _ := proxy.User.Password()
		secrets = append(secrets, password)
	}
	slices.Sort(secrets)
	return slices.DeleteFunc(slices.Compact(secrets), func(s string) bool { return s == "" })
}

func (n Network) addTo(env map[string]string) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		set(env, name, n.Proxy)
	}
	set(env, "NO_PROXY", n.NoProxy)
	set(env, "no_proxy", n.NoProxy)
	for _, name := range caVariables {
		set(env, name, n.CAFile)
	}
}

func set(env map[string]string, name, value string) {
	if value != "" {
		env[name] = value
	}
}

// withoutUser drops name and password from a URL; what is no URL is dropped
// whole, since it cannot be told what of it is secret.
func withoutUser(raw string) string {
	parsed, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	parsed.User = nil
	return parsed.String()
}
