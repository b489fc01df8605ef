package worker

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fullSpec() EnvSpec {
	return EnvSpec{
		Variables: map[string]string{
			"LANG": "de_DE.UTF-8", "GREETING": "hello", "HOME": "/elsewhere", "DEVIN_WORKER_ACCEPTOR_ID": "stolen",
			"COPY": "Bearer cog_secret1", "DEVIN_API_TOKEN": "cog_other99",
		},
		Secrets: map[string]string{"NPM_TOKEN": "npm_secret2"},
		Token:   "cog_secret1", Acceptor: "web-abc-0", APIURL: "https://api.devin.ai",
		Home: "/workspace/.home", Path: "/usr/bin:/bin", Workspace: "/workspace", CacheDir: "/run/pool/cache",
		ChromePath: "/usr/bin/chromium", Display: ":1",
		Network: Network{Proxy: "http://user:proxypass@proxy:3128", NoProxy: "localhost", CAFile: "/etc/ca.pem"},
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("INHERITED", "no") // nothing of ours gets in
	proxy := "http://user:proxypass@proxy:3128"
	want := map[string]string{
		"LANG": "de_DE.UTF-8", "GREETING": "hello", "COPY": "Bearer cog_secret1", "DEVIN_API_TOKEN": "cog_other99",
		"NPM_TOKEN": "npm_secret2", "DEVIN_OUTPOSTS_TOKEN": "cog_secret1", "DEVIN_WORKER_ACCEPTOR_ID": "web-abc-0",
		"DEVIN_API_URL": "https://api.devin.ai", "HOME": "/workspace/.home", "PATH": "/usr/bin:/bin",
		"DEVIN_WORKER_CACHE_DIR": "/run/pool/cache", "DEVIN_CHROME_PATH": "/usr/bin/chromium", "DISPLAY": ":1",
		"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "http_proxy": proxy, "https_proxy": proxy,
		"NO_PROXY": "localhost", "no_proxy": "localhost",
	}
	for _, name := range caVariables {
		want[name] = "/etc/ca.pem"
	}
	if diff := cmp.Diff(want, Environment(fullSpec())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEnvironmentWithTheLeast(t *testing.T) {
	got := Environment(EnvSpec{Path: "/bin", Home: "/h", Acceptor: "a", CacheDir: "/c", Workspace: "/w"})
	want := map[string]string{"LANG": "C.UTF-8", "PATH": "/bin", "HOME": "/h",
		"DEVIN_WORKER_ACCEPTOR_ID": "a", "DEVIN_WORKER_CACHE_DIR": "/c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExecEnvironmentHoldsNoSecret(t *testing.T) {
	spec := fullSpec()
	got := ExecEnvironment(spec)
	for name, value := range got {
		for _, secret := range []string{"cog_secret1", "npm_secret2", "proxypass", "cog_other99"} {
			if strings.Contains(value, secret) {
				t.Errorf("%s=%s", name, value)
			}
		}
	}
	for _, name := range []string{"DEVIN_OUTPOSTS_TOKEN", "DEVIN_API_TOKEN", "NPM_TOKEN", "COPY"} {
		if _, there := got[name]; there {
			t.Errorf("%s is there", name)
		}
	}
	for name, want := range map[string]string{"WORKSPACE": "/workspace", "GREETING": "hello", "HTTP_PROXY": "http://proxy:3128",
		"HOME": "/workspace/.home", "DEVIN_WORKER_ACCEPTOR_ID": "web-abc-0"} {
		if got[name] != want {
			t.Errorf("%s=%q, want %q", name, got[name], want)
		}
	}
	if want := []string{"cog_other99", "cog_secret1", "npm_secret2", "proxypass"}; !slices.Equal(Secrets(spec), want) {
		t.Errorf("secrets %v", Secrets(spec))
	}
}

func TestCommand(t *testing.T) {
	fields := Fields{Worker: "web-0", Slot: "0", Pool: "web", Outpost: "outpost_env-1", Acceptor: "web-abc-0"}
	for name, c := range map[string]struct {
		template []string
		flags    Flags
		want     string
		err      string
	}{
		"as configured":    {[]string{"devin", "worker", "start", "--outpost={outpost}"}, Flags{}, "devin worker start --outpost=outpost_env-1", ""},
		"older CLI":        {[]string{"devin", "--outpost={outpost}", "--x"}, Flags{poolFlag}, "devin --pool=outpost_env-1 --x", ""},
		"older CLI, apart": {[]string{"devin", "--outpost", "{outpost}"}, Flags{poolFlag}, "devin --pool outpost_env-1", ""},
		"another flag":     {[]string{"devin", "--outpost-x={outpost}"}, Flags{poolFlag}, "devin --outpost-x=outpost_env-1", ""},
		"all fields":       {[]string{"w", "{worker}/{slot}/{pool}/{acceptor}"}, Flags{}, "w web-0/0/web/web-abc-0", ""},
		"braces of JSON":   {[]string{"w", `{"a":1}`}, Flags{}, `w {"a":1}`, ""},
		"unknown":          {[]string{"w", "{token}"}, Flags{}, "", "{token}"},
		"empty":            {nil, Flags{}, "", "worker.command"},
	} {
		got, err := Command(c.template, fields, c.flags)
		if strings.Join(got, " ") != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestFlagIn(t *testing.T) {
	for help, want := range map[string]string{
		"  --outpost <NAME>  the queue": outpostFlag, "  --pool=<POOL>\n": poolFlag, "--pool --outpost": outpostFlag,
		"--outpost-id X --pool\n": poolFlag, "--pooling": "", "": "",
	} {
		if got, ok := flagIn(help); got.Outpost != want || ok != (want != "") {
			t.Errorf("%q: %v", help, got)
		}
	}
}
