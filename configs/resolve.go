package configs

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// Variables of the environment that name the outpost and the API, in the
// order in which they are looked at.
const (
	OutpostEnv      = "OUTPOST_ID"
	OtherOutpostEnv = "DEVIN_OUTPOST_ID"
	APIURLEnv       = "DEVIN_API_URL"
)

// ErrNoOutpost and ErrNoToken are wrapped by the errors of Resolve.
var (
	ErrNoOutpost = errors.New("no outpost is named")
	ErrNoToken   = errors.New("there is no token")
)

// Flags are what the command line says; empty fields were not given. There is
// no flag for a token itself, since everyone on a machine sees arguments.
type Flags struct {
	Outpost   string // an id or a name
	APIURL    string
	TokenEnv  string // the name of a variable
	TokenFile string
}

// Inputs is all that outpost and token can come from.
type Inputs struct {
	Flags       Flags
	Config      *Config           // nil without a file
	Env         map[string]string // pool's own environment, see Environ
	EnvFile     string            // the path given as --env-file; empty without
	EnvFileVars map[string]string // what ReadEnvFile read from it
}

// Resolved says which outpost to serve and where the token is. It holds no
// secret.
type Resolved struct {
	OutpostID, OutpostName string // one of the two
	OutpostSource          string // in words: "--outpost", "[outpost] in pool.toml"
	APIURL                 string // scheme and host, no path
	APIURLSource           string
	Token                  Secret
	Notes                  []string // what a person should know, a line each
}

// Outpost is the id, or the name where no id is known.
func (r Resolved) Outpost() string {
	if r.OutpostID != "" {
		return r.OutpostID
	}
	return r.OutpostName
}

// Environ turns os.Environ into a map.
func Environ(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// Resolve decides by flags, then the configuration, then the environment
// (design §12). Variables of the env file come before those of the same name
// in the environment, because somebody has just named that file. It reads
// nothing.
func Resolve(in Inputs) (Resolved, error) {
	config := Default()
	if in.Config != nil {
		config = *in.Config
	}
	r := &resolver{Inputs: in, config: &config}
	// All that is missing is said at once.
	err := errors.Join(r.outpost(), r.apiURL(), r.token())
	if err != nil {
		return Resolved{}, err
	}
	return r.out, nil
}

type resolver struct {
	Inputs
	config *Config
	out    Resolved
}

func (r *resolver) note(format string, args ...any) {
	r.out.Notes = append(r.out.Notes, hideTokens(fmt.Sprintf(format, args...)))
}

// variable looks a name up in the env file, then in the environment. Blank
// counts as not set.
func (r *resolver) variable(name string) (value, source string) {
	inFile := strings.TrimSpace(r.EnvFileVars[name])
	inEnv := strings.TrimSpace(r.Env[name])
	if inFile != "" {
		if inEnv != "" && inEnv != inFile {
			r.note("%s is also set in the environment; the one in %s counts", name, r.EnvFile)
		}
		return inFile, name + " in " + r.EnvFile
	}
	return inEnv, name + " in the environment"
}

func (r *resolver) outpost() error {
	fromEnv, envSource := r.variable(OutpostEnv)
	if fromEnv == "" {
		fromEnv, envSource = r.variable(OtherOutpostEnv)
	}
	fromConfig := r.config.Outpost.ID + r.config.Outpost.Name // never both
	switch {
	case r.Flags.Outpost != "":
		r.setOutpost(r.Flags.Outpost, "--outpost")
	case fromConfig != "":
		r.out.OutpostID, r.out.OutpostName = r.config.Outpost.ID, r.config.Outpost.Name
		r.out.OutpostSource = "[outpost] of the configuration"
		if fromEnv != "" && fromEnv != fromConfig {
			r.note("%s names another outpost; the configuration's counts", envSource)
		}
	case fromEnv != "":
		r.setOutpost(fromEnv, envSource)
	default:
		return fmt.Errorf("%w; give --outpost, write id or name in [outpost] of pool.toml, or set %s (ids are shown where outposts are made in Devin, and by pool outpost ls)", ErrNoOutpost, OutpostEnv)
	}
	if tokenKind(r.out.Outpost()) != "" {
		return fmt.Errorf("what %s names as the outpost looks like a token; the outpost's id begins with outpost_", r.out.OutpostSource)
	}
	if strings.ContainsAny(r.out.Outpost(), "\n\r\t\x00") {
		return fmt.Errorf("the outpost from %s has a line break or a tab in it", r.out.OutpostSource)
	}
	return nil
}

// setOutpost tells an id from a name by its beginning (facts outposts.md 1.2
// and 1.3).
func (r *resolver) setOutpost(text, source string) {
	text = strings.TrimSpace(text)
	r.out.OutpostSource = source
	if strings.HasPrefix(text, "outpost_") || strings.HasPrefix(text, "pool_") {
		r.out.OutpostID = text
		return
	}
	r.out.OutpostName = text
}

func (r *resolver) apiURL() error {
	text, source := r.Flags.APIURL, "--api-url"
	// The default that is written out stands for itself; the one that is not
	// leaves the choice to the environment.
	chosen := r.config.Written("outpost.api_url") || r.config.Outpost.APIURL != DefaultAPIURL
	if text == "" && chosen {
		text, source = r.config.Outpost.APIURL, "[outpost] of the configuration"
	}
	if text == "" {
		text, source = r.variable(APIURLEnv)
	}
	if text == "" {
		text, source = DefaultAPIURL, "the default"
	}
	if problem := urlProblem(text); problem != "" {
		return fmt.Errorf("the API's address from %s %s", source, problem)
	}
	origin, dropped := dropAPIPath(text)
	if dropped != "" {
		r.note("%s is left out of the API's address from %s: the CLI wants scheme and host only", dropped, source)
	}
	if inTheClear(origin) {
		r.note("the token goes to %s without encryption", origin)
	}
	r.out.APIURL, r.out.APIURLSource = origin, source
	return nil
}

// dropAPIPath cuts the path that some tools put into the same variable
// (facts outposts.md 1.2).
func dropAPIPath(text string) (origin, dropped string) {
	origin = strings.TrimRight(strings.TrimSpace(text), "/")
	for _, path := range []string{"/opbeta/outposts", "/opbeta"} {
		if cut, found := strings.CutSuffix(origin, path); found {
			return strings.TrimRight(cut, "/"), path
		}
	}
	return origin, ""
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

func (r *resolver) token() error {
	o := r.config.Outpost
	switch {
	case r.Flags.TokenFile != "":
		r.out.Token = Secret{File: r.Flags.TokenFile}
	case r.Flags.TokenEnv != "":
		return r.tokenFrom(r.Flags.TokenEnv)
	case o.TokenFile != "":
		r.out.Token = Secret{File: o.TokenFile}
	case o.TokenCommand != "":
		r.out.Token = Secret{Command: o.TokenCommand}
	case o.TokenEnv != DefaultTokenEnv:
		// Somebody chose this variable. Another token instead would be
		// another account.
		return r.tokenFrom(o.TokenEnv)
	default:
		return r.tokenFrom(DefaultTokenEnv, OtherTokenEnv)
	}
	return nil
}

func (r *resolver) tokenFrom(names ...string) error {
	for _, name := range names {
		value, _ := r.variable(name)
		if value == "" {
			continue
		}
		r.out.Token = Secret{Env: name}
		if strings.TrimSpace(r.EnvFileVars[name]) != "" {
			r.out.Token.EnvFile = r.EnvFile
		}
		return nil
	}
	return fmt.Errorf("%w: %s is not set; export it, put it into a file and give --env-file, or write token_file in [outpost] of pool.toml (the token begins with cog_ and is shown once when the outpost is made)", ErrNoToken, names[0])
}
