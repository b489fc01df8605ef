package configs

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// finding is something wrong that no single key shows.
type finding struct{ key, text string }

// check finds what cannot be although each value alone is allowed.
func check(c *Config) []finding {
	var found []finding
	for _, rule := range []func(*Config) []finding{
		checkOutpost, checkCommand, checkEnv, checkRepos, checkLocal, checkRestart, checkSizes, checkNetwork,
	} {
		found = append(found, rule(c)...)
	}
	return found
}

func checkOutpost(c *Config) (found []finding) {
	o := c.Outpost
	if o.ID != "" && o.Name != "" {
		found = append(found, finding{"outpost.name", "names an outpost beside outpost.id; write one of the two"})
	}
	if strings.TrimSpace(o.Name) != o.Name || strings.ContainsAny(o.Name, "\n\r\t") {
		found = append(found, finding{"outpost.name", "has white space around it or a line break in it"})
	}
	if problem := urlProblem(o.APIURL); problem != "" {
		found = append(found, finding{"outpost.api_url", problem})
	}
	named := 0
	for _, source := range []string{o.TokenFile, o.TokenCommand} {
		if source != "" {
			named++
		}
	}
	if o.TokenEnv != DefaultTokenEnv {
		named++
	}
	if named > 1 {
		found = append(found, finding{"outpost", "names the token more than once; write one of token_env, token_file and token_command"})
	}
	return found
}

// urlProblem says what is wrong with the address of an API; empty when
// nothing is.
func urlProblem(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || (parsed.Scheme != "https" && parsed.Scheme != "http") || parsed.Hostname() == "" {
		return "must be an address such as " + DefaultAPIURL
	}
	origin, _ := dropAPIPath(text)
	if rest, err := url.Parse(origin); err != nil || rest.Path != "" || parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil {
		return "must be scheme and host only, such as " + DefaultAPIURL
	}
	return ""
}

func checkLocal(c *Config) (found []finding) {
	for i, bind := range c.Provider.Local.Binds {
		if bind != "" && strings.Trim(bind, "/.") == "" {
			found = append(found, finding{elementOf("provider.local.binds", i), "would show all of a folder that the walls hide; name what the worker needs"})
		}
	}
	return found
}

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

var placeholders = []string{"worker", "slot", "pool", "outpost", "acceptor"}

// refusedFlags would break what the pool promises (facts outposts.md 1.2, 1.8).
var refusedFlags = map[string]string{
	"--token":           "a token in a command line is seen by everyone on the machine; name it in [outpost]",
	"--acceptor-id":     "the pool gives each worker an id of its own, so that no two take each other's sessions",
	"--pty-bridge-port": "workers of one machine cannot share a fixed port; leave it out",
}

func checkCommand(c *Config) (found []finding) {
	if len(c.Worker.Command) == 0 || c.Worker.Command[0] == "" {
		found = append(found, finding{"worker.command", "is empty; leave the key out for the Devin CLI"})
	}
	for _, list := range []struct {
		key  string
		args []string
	}{{"worker.command", c.Worker.Command}, {"worker.args", c.Worker.Args}} {
		for i, arg := range list.args {
			key := elementOf(list.key, i)
			for _, written := range placeholder.FindAllString(arg, -1) {
				if name := strings.Trim(written, "{}"); !slices.Contains(placeholders, name) {
					found = append(found, finding{key, "has an unknown placeholder; known are {" + strings.Join(placeholders, "}, {") + "}" + suggestion(name, placeholders)})
				}
			}
			flag, _, _ := strings.Cut(arg, "=")
			if why, refused := refusedFlags[flag]; refused {
				found = append(found, finding{key, flag + " is not allowed here: " + why})
			}
		}
	}
	return found
}

const setByPool = "is set by the pool itself"

// poolsOwnEnv are the variables that the pool sets in a worker's environment
// (design §7), with what to do instead of writing them.
var poolsOwnEnv = map[string]string{
	"DEVIN_OUTPOSTS_TOKEN": setByPool + "; [outpost] names where the token comes from",
	"DEVIN_API_TOKEN":      "would give the worker a second token; [outpost] names where the token comes from",
	// With it a worker serves one session and never looks at the queue.
	"DEVIN_REMOTE_SESSION_TOKEN": "is for workers that somebody else claims for; leave it out",
	"DEVIN_WORKER_ACCEPTOR_ID":   setByPool + ", one for each worker",
	"DEVIN_API_URL":              setByPool + "; write api_url in [outpost]",
	"DEVIN_WORKER_CACHE_DIR":     setByPool + ", outside the workspace",
	"DEVIN_CHROME_PATH":          setByPool + "; write chrome_path in [worker]",
	"DEVIN_PTY_BRIDGE_PORT":      "cannot be shared by workers of one machine; leave it out",
	"DISPLAY":                    setByPool + "; write display in [worker]",
	"HOME":                       setByPool + ": it is .home in the workspace",
	"PATH":                       setByPool + "; write path in [provider.local]",
	"WORKSPACE":                  setByPool,
	"POOL_RUN":                   setByPool,
}

func checkEnv(c *Config) (found []finding) {
	for _, name := range slices.Sorted(maps.Keys(c.Worker.Env)) {
		if why, own := poolsOwnEnv[name]; own {
			found = append(found, finding{keyIn("worker.env", name), why})
		}
		if _, both := c.Worker.SecretEnv[name]; both {
			found = append(found, finding{keyIn("worker.env", name), "is also in worker.secret_env; write it once"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Worker.SecretEnv)) {
		key := keyIn("worker.secret_env", name)
		if why, own := poolsOwnEnv[name]; own {
			found = append(found, finding{key, why})
		}
		if n := c.Worker.SecretEnv[name].sources(); n != 1 {
			found = append(found, finding{key, "must name one source: env, file or command"})
		}
	}
	return found
}

func (s Secret) sources() int {
	n := 0
	for _, source := range []string{s.Env, s.File, s.Command} {
		if source != "" {
			n++
		}
	}
	return n
}

func checkRestart(c *Config) []finding {
	if c.Restart.Initial > c.Restart.Max {
		return []finding{{"restart.initial", fmt.Sprintf("is longer than restart.max, which is %s", c.Restart.Max)}}
	}
	return nil
}

func checkSizes(c *Config) (found []finding) {
	// A line never spans two files, and rotation needs room for the next one.
	if c.Logs.LineLimit > c.Logs.MaxSize/2 {
		found = append(found, finding{"logs.line_limit", fmt.Sprintf("is more than half of logs.max_size, which is %s", c.Logs.MaxSize)})
	}
	return found
}

func checkNetwork(c *Config) (found []finding) {
	if c.Network.Proxy != "" {
		parsed, err := url.Parse(c.Network.Proxy)
		if err != nil || parsed.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, parsed.Scheme) {
			found = append(found, finding{"network.proxy", `must be an address such as "http://proxy:3128"`})
		}
	}
	for i, host := range c.Network.NoProxy {
		if host == "" || strings.ContainsAny(host, ", \t\r\n") {
			found = append(found, finding{elementOf("network.no_proxy", i), "must be one host, domain or network, such as \".corp.example\""})
		}
	}
	return found
}
