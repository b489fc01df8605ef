package configs

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// ConfigFile is the name of the configuration beside you.
const ConfigFile = "pool.toml"

// Variables of the environment that choose a pool.
const (
	PoolEnv       = "POOL_NAME"
	PoolConfigEnv = "POOL_CONFIG"
)

// ErrNoPool is wrapped by Find's error when nothing says which pool is meant.
var ErrNoPool = errors.New("which pool?")

// KnownPool is a pool this user has on this machine.
type KnownPool struct{ Name, StateDir string }

// FindInputs is all that Find looks at.
type FindInputs struct {
	Pool   string // --pool
	Config string // --config
	Dir    string // the current directory
	Env    map[string]string
	Home   string // see HomeDir
	// Starting is for up and what else needs no pool that exists: without
	// any, the choice is the pool of an empty configuration.
	Starting bool
	// List returns the pools below a folder, as ListPools does.
	List func(stateRoot string) ([]KnownPool, error)
}

// Choice is the pool that is meant.
type Choice struct {
	Pool       string
	StateDir   string // absolute
	ConfigFile string // absolute; empty without a file
	// Config is what the file says, with Pool as its name; nil without a file
	// or when it has problems. ConfigErr has those: whatever only talks to a
	// running supervisor can go on without, up cannot.
	Config    *Config
	ConfigErr error
	Why       string // in words: "pool.toml beside you"
}

// Find decides which pool is meant (design §12): --pool or --config, else
// POOL_NAME or POOL_CONFIG, else pool.toml beside you, else the only pool this
// user has. Both a name and a file: the name counts, the file configures it.
func Find(in FindInputs) (Choice, error) {
	name, file, why := in.Pool, in.Config, "the command line"
	if name == "" && file == "" {
		name, file, why = in.Env[PoolEnv], in.Env[PoolConfigEnv], "the environment"
	}
	if name != "" && !poolName.MatchString(name) {
		return Choice{}, fmt.Errorf("the pool's name from %s must be 1 to 40 of a–z, 0–9 and -, not at either end", why)
	}
	if file != "" {
		return in.fromFile(in.absolute(file), name, "the configuration named by "+why)
	}
	beside := filepath.Join(in.Dir, ConfigFile)
	_, err := os.Stat(beside)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist) && name == "":
		return Choice{}, fmt.Errorf("cannot look at %s: %w", beside, bare(err))
	case err == nil && name == "":
		return in.fromFile(beside, "", ConfigFile+" beside you")
	case err == nil:
		// It belongs to the pool that is named only if it says so itself.
		if choice, err := in.fromFile(beside, "", why); err == nil && choice.Pool == name {
			return choice, nil
		}
	}
	if name != "" {
		return Choice{Pool: name, StateDir: in.stateDir(name), Why: why}, nil
	}
	return in.onlyPool()
}

// poolName is the pattern of the key pool.name.
var poolName = func() *regexp.Regexp {
	fields := fieldsOf(reflect.TypeFor[Pool]())
	return fields[slices.IndexFunc(fields, func(f field) bool { return f.name == "name" })].pattern
}()

func (in FindInputs) absolute(path string) string {
	return absolutePath(path, in.Dir, in.Home)
}

func (in FindInputs) stateDir(pool string) string { return filepath.Join(in.stateRoot(), pool) }

func (in FindInputs) stateRoot() string { return StateRoot(in.Env["XDG_STATE_HOME"], in.Home) }

func (in FindInputs) fromFile(file, name, why string) (Choice, error) {
	config, err := load(file)
	if config == nil {
		return Choice{}, err
	}
	if name != "" {
		config.Pool.Name = name
	}
	choice := Choice{
		Pool:       config.Pool.Name,
		StateDir:   config.Pool.StateDir,
		ConfigFile: file,
		ConfigErr:  err,
		Why:        why,
	}
	if choice.StateDir == "" {
		choice.StateDir = in.stateDir(choice.Pool)
	}
	switch {
	case err == nil:
		choice.Config = config
	case name == "" && !tellsPool(err):
		// The default would be another pool, which a down must not reach.
		return choice, err
	}
	return choice, nil
}

// tellsPool reports whether a file with these problems still says which pool
// it is for.
func tellsPool(err error) bool {
	var problems Problems
	return !errors.As(err, &problems) || !slices.ContainsFunc(problems, func(p Problem) bool {
		return p.Key == "" || p.Key == "pool" || p.Key == "pool.name" || p.Key == "pool.state_dir"
	})
}

func (in FindInputs) onlyPool() (Choice, error) {
	pools, err := in.List(in.stateRoot())
	if err != nil {
		return Choice{}, fmt.Errorf("cannot list the pools in %s: %w", in.stateRoot(), bare(err))
	}
	switch {
	case len(pools) == 1:
		return Choice{Pool: pools[0].Name, StateDir: pools[0].StateDir, Why: "the only pool you have"}, nil
	case len(pools) > 1:
		names := make([]string, len(pools))
		for i, pool := range pools {
			names[i] = pool.Name
		}
		slices.Sort(names)
		return Choice{}, fmt.Errorf("%w You have %s; give --pool NAME, set %s, or go where its %s is", ErrNoPool, strings.Join(names, ", "), PoolEnv, ConfigFile)
	case in.Starting:
		name := Default().Pool.Name
		return Choice{Pool: name, StateDir: in.stateDir(name), Why: "the default, since you have no pool yet"}, nil
	}
	return Choice{}, fmt.Errorf("%w You have none on this machine; pool up starts one, pool init writes its %s", ErrNoPool, ConfigFile)
}

// StateRoot is the folder that holds the pools' state folders:
// $XDG_STATE_HOME/pool, else ~/.local/state/pool. A relative XDG_STATE_HOME
// is ignored, as its specification asks.
func StateRoot(xdgStateHome, home string) string {
	if filepath.IsAbs(xdgStateHome) {
		return filepath.Join(xdgStateHome, "pool")
	}
	return filepath.Join(home, ".local", "state", "pool")
}

// HomeDir returns the home folder: the value of HOME, else what the user
// database says, since cron and service managers may set nothing.
func HomeDir(home string) (string, error) {
	if filepath.IsAbs(home) {
		return home, nil
	}
	current, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("cannot find your home folder: %w; set HOME", err)
	}
	if !filepath.IsAbs(current.HomeDir) {
		return "", errors.New("cannot find your home folder: the user database has none; set HOME")
	}
	return current.HomeDir, nil
}

// ListPools lists the pools whose state folders are below stateRoot, by name.
// A folder counts when a supervisor has given it a uid. No folder: no pools.
func ListPools(stateRoot string) ([]KnownPool, error) {
	entries, err := os.ReadDir(stateRoot)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pools []KnownPool
	for _, entry := range entries {
		dir := filepath.Join(stateRoot, entry.Name())
		if _, err := os.Stat(filepath.Join(dir, "uid")); err == nil {
			pools = append(pools, KnownPool{Name: entry.Name(), StateDir: dir})
		}
	}
	return pools, nil
}
