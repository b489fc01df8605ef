package configs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func writeFile(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhichPool(t *testing.T) {
	root := t.TempDir()
	here := filepath.Join(root, "here")
	beside := writeFile(t, filepath.Join(here, "pool.toml"), "[pool]\nname = 'beside'")
	other := writeFile(t, filepath.Join(root, "other.toml"), "[pool]\nname = 'other'\nstate_dir = 'kept'")
	broken := writeFile(t, filepath.Join(root, "broken.toml"), "[pool]\nname = 'broken'\nworkers = -1")
	empty := filepath.Join(root, "empty")
	list := func(names ...string) func(string) ([]KnownPool, error) {
		return func(stateRoot string) ([]KnownPool, error) {
			var pools []KnownPool
			for _, name := range names {
				pools = append(pools, KnownPool{name, filepath.Join(stateRoot, name)})
			}
			return pools, nil
		}
	}
	state := "/home/ada/.local/state/pool/"
	for name, c := range map[string]struct {
		in                    FindInputs
		pool, stateDir, file  string
		why                   string
		hasConfig, hasProblem bool
	}{
		"--pool": {in: FindInputs{Pool: "web", Dir: here}, pool: "web", stateDir: state + "web", why: "the command line"},
		"--pool that the file beside you has": {in: FindInputs{Pool: "beside", Dir: here},
			pool: "beside", stateDir: state + "beside", file: beside, why: "the command line", hasConfig: true},
		"--config, relative": {in: FindInputs{Config: "../other.toml", Dir: here},
			pool: "other", stateDir: filepath.Join(root, "kept"), file: other, why: "the configuration named by the command line", hasConfig: true},
		"both": {in: FindInputs{Pool: "web", Config: beside, Dir: empty},
			pool: "web", stateDir: state + "web", file: beside, why: "the configuration named by the command line", hasConfig: true},
		"flag before environment": {in: FindInputs{Config: beside, Dir: empty, Env: map[string]string{"POOL_NAME": "env", "POOL_CONFIG": other}},
			pool: "beside", stateDir: state + "beside", file: beside, why: "the configuration named by the command line", hasConfig: true},
		"POOL_NAME before the file beside you": {in: FindInputs{Dir: here, Env: map[string]string{"POOL_NAME": "env"}},
			pool: "env", stateDir: state + "env", why: "the environment"},
		"POOL_CONFIG": {in: FindInputs{Dir: here, Env: map[string]string{"POOL_CONFIG": other}},
			pool: "other", stateDir: filepath.Join(root, "kept"), file: other, why: "the configuration named by the environment", hasConfig: true},
		"the file beside you": {in: FindInputs{Dir: here, List: list("a", "b")},
			pool: "beside", stateDir: state + "beside", file: beside, why: "pool.toml beside you", hasConfig: true},
		"a file with problems still finds its pool": {in: FindInputs{Config: broken, Dir: empty},
			pool: "broken", stateDir: state + "broken", file: broken, why: "the configuration named by the command line", hasProblem: true},
		"the only pool": {in: FindInputs{Dir: empty, List: list("lonely")},
			pool: "lonely", stateDir: state + "lonely", why: "the only pool you have"},
		"the only pool when starting": {in: FindInputs{Dir: empty, Starting: true, List: list("lonely")},
			pool: "lonely", stateDir: state + "lonely", why: "the only pool you have"},
		"starting the first": {in: FindInputs{Dir: empty, Starting: true, List: list()},
			pool: "pool", stateDir: state + "pool", why: "the default, since you have no pool yet"},
		"XDG_STATE_HOME": {in: FindInputs{Pool: "web", Dir: empty, Env: map[string]string{"XDG_STATE_HOME": "/state"}},
			pool: "web", stateDir: "/state/pool/web", why: "the command line"},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Home = "/home/ada"
			got, err := Find(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if got.Pool != c.pool || got.StateDir != c.stateDir || got.ConfigFile != c.file || got.Why != c.why {
				t.Errorf("got %+v\nwant %+v", got, c)
			}
			if (got.Config != nil) != c.hasConfig || (got.ConfigErr != nil) != c.hasProblem {
				t.Errorf("config %v, error %v", got.Config, got.ConfigErr)
			}
			if got.Config != nil && got.Config.Pool.Name != c.pool {
				t.Errorf("the configuration is that of %s", got.Config.Pool.Name)
			}
		})
	}
	for name, c := range map[string]struct {
		in   FindInputs
		want string
	}{
		"several":                         {FindInputs{Dir: empty, List: list("b", "a")}, "which pool? You have a, b; give --pool NAME, set POOL_NAME, or go where its pool.toml is"},
		"several when starting":           {FindInputs{Dir: empty, Starting: true, List: list("b", "a")}, "which pool? You have a, b;"},
		"none":                            {FindInputs{Dir: empty, List: list()}, "which pool? You have none on this machine; pool up starts one"},
		"a wrong name":                    {FindInputs{Pool: "../x", Dir: empty}, "the pool's name from the command line must be 1 to 40"},
		"a wrong name in the environment": {FindInputs{Dir: empty, Env: map[string]string{"POOL_NAME": "A"}}, "the pool's name from the environment must be"},
		"no such file":                    {FindInputs{Config: "none.toml", Dir: empty}, "none.toml: no such file or directory; pool init"},
		"no list":                         {FindInputs{Dir: empty, List: func(string) ([]KnownPool, error) { return nil, os.ErrPermission }}, "cannot list the pools in /home/ada/.local/state/pool: permission denied"},
	} {
		c.in.Home = "/home/ada"
		if _, err := Find(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want …%s", name, err, c.want)
		}
	}
	if _, err := Find(FindInputs{Dir: empty, List: list()}); !errors.Is(err, ErrNoPool) {
		t.Errorf("the error is not ErrNoPool: %v", err)
	}
}

func TestListPools(t *testing.T) {
	root := filepath.Join(t.TempDir(), "pool")
	if pools, err := ListPools(root); pools != nil || err != nil {
		t.Errorf("a missing folder has the pools %v, %v", pools, err)
	}
	writeFile(t, filepath.Join(root, "web", "uid"), "abcdefgh")
	writeFile(t, filepath.Join(root, "api", "uid"), "abcdefgi")
	writeFile(t, filepath.Join(root, "leftover", "pool.lock"), "")
	writeFile(t, filepath.Join(root, "a file"), "")
	pools, err := ListPools(root)
	want := []KnownPool{{"api", filepath.Join(root, "api")}, {"web", filepath.Join(root, "web")}}
	if err != nil || !slices.Equal(pools, want) {
		t.Errorf("got %v, %v; want %v", pools, err, want)
	}
}

func TestHomeDirUnderABareEnvironment(t *testing.T) {
	if home, err := HomeDir("/home/ada"); home != "/home/ada" || err != nil {
		t.Errorf("got %q, %v", home, err)
	}
	// cron may set no HOME at all; a relative one would depend on the folder.
	for _, unset := range []string{"", "relative"} {
		home, err := HomeDir(unset)
		if err != nil || !filepath.IsAbs(home) {
			t.Errorf("HOME=%q gives %q, %v", unset, home, err)
		}
	}
	if got := StateRoot("relative", "/home/ada"); got != "/home/ada/.local/state/pool" {
		t.Errorf("a relative XDG_STATE_HOME gives %s", got)
	}
}
