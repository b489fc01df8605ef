package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/configs"
	"github.com/outpostpool/pool/pool"
	"github.com/outpostpool/pool/pool/plan"
	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/local"
	"github.com/outpostpool/pool/worker"
	"github.com/outpostpool/pool/worker/logs"
	"github.com/outpostpool/pool/worker/outpost"
)

// setup is what the command line, the configuration and the environment say
// about a pool, before anything is started.
type setup struct {
	choice   configs.Choice
	config   configs.Config
	resolved configs.Resolved
	fleet    *outpost.Client
	local    *local.Provider
	path     string // PATH of the worker
}

func setupFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "outpost", Usage: "the outpost's `ID` or name"},
		&cli.StringFlag{Name: "api-url", Usage: "`ORIGIN` of Devin's API"},
		&cli.StringFlag{Name: "token-env", Usage: "the `VARIABLE` that holds the token"},
		&cli.StringFlag{Name: "token-file", Usage: "the `FILE` that holds the token"},
		&cli.StringFlag{Name: "env-file", Usage: "a `FILE` of variables, as the vendors' guides write it"},
	}
}

// configOf is the configuration of a choice; a broken file is an error that
// names every problem.
func configOf(choice configs.Choice) (configs.Config, error) {
	if choice.ConfigErr != nil {
		return configs.Config{}, failWith(exitUsage, "%w", choice.ConfigErr)
	}
	config := configs.Default()
	if choice.Config != nil {
		config = *choice.Config
	}
	config.Pool.Name = choice.Pool
	return config, nil
}

// resolve finds outpost and token.
func (s *setup) resolve(c *cli.Context) (err error) {
	in := configs.Inputs{
		Flags: configs.Flags{
			Outpost: c.String("outpost"), APIURL: c.String("api-url"),
			TokenEnv: c.String("token-env"),
		},
		Config: &s.config, Env: configs.Environ(os.Environ()),
	}
	if in.Flags.TokenFile, err = absolute(c.String("token-file")); err != nil {
		return err
	}
	if in.EnvFile, err = absolute(c.String("env-file")); err != nil {
		return err
	}
	if in.EnvFile != "" {
		if in.EnvFileVars, err = configs.ReadEnvFile(in.EnvFile); err != nil {
			return failWith(exitUsage, "%w", err)
		}
	}
	if s.resolved, err = configs.Resolve(in); err != nil {
		return failWith(exitUsage, "%w", err)
	}
	s.fleet = outpost.New(outpost.Options{
		APIURL: s.resolved.APIURL, Token: s.resolved.Token.Read,
		HTTP: httpClient(s.config.Network), UserAgent: "pool/" + version,
	})
	return nil
}

// absolute completes a path that the background may read from another folder.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

// openProvider makes the provider that the configuration asks for.
func (s *setup) openProvider(ctx context.Context) error {
	env := configs.Environ(os.Environ())
	home, err := configs.HomeDir(env["HOME"])
	if err != nil {
		return err
	}
	s.path = workerPath(s.config.Provider.Local.Path, home)
	options := local.Options{
		Dir: filepath.Join(s.choice.StateDir, "sandboxes"), Hide: []string{s.choice.StateDir},
		Binds:     s.binds(),
		Isolation: s.config.Provider.Local.Isolation, Path: s.path,
	}
	options.Hide = append(options.Hide, s.secretFiles()...)
	provider, err := providers.Open(ctx, s.config.Provider.Kind, options)
	if err != nil {
		return err
	}
	s.local, _ = providers.As[*local.Provider](provider)
	return nil
}

// secretFiles are the files that no session behind walls may see.
func (s *setup) secretFiles() []string {
	files := []string{s.choice.ConfigFile, s.resolved.Token.File, s.resolved.Token.EnvFile, s.config.Worker.GitTokenFile}
	for _, secret := range s.config.Worker.SecretEnv {
		files = append(files, secret.File)
	}
	return slices.DeleteFunc(files, func(file string) bool { return file == "" })
}

// workerPath is the PATH of workers: what the configuration names first, the
// system's, and where devin's installer puts it (facts outposts.md 1.6).
func workerPath(first []string, home string) string {
	dirs := append(slices.Clone(first), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
	if runtime.GOOS == "darwin" {
		dirs = append(dirs, "/opt/homebrew/bin")
	}
	return strings.Join(append(dirs, filepath.Join(home, ".local", "bin")), ":")
}

// binds are what a worker must see inside its walls: what the configuration
// names, and a command given by its path.
func (s *setup) binds() []string {
	binds := append(slices.Clone(s.config.Provider.Local.Binds), s.config.Provider.Local.Path...)
	if program := s.config.Worker.Command[0]; filepath.IsAbs(program) && !strings.HasPrefix(program, "/usr/") {
		binds = append(binds, program)
	}
	if file := s.config.Network.CAFile; file != "" {
		binds = append(binds, file)
	}
	return binds
}

// settings is all that a supervisor needs.
func (s *setup) settings(found outpost.Outpost, notes []string, logger *slog.Logger) pool.Settings {
	c := s.config
	c.Outpost.ID, c.Outpost.Name, c.Outpost.APIURL = s.resolved.OutpostID, s.resolved.OutpostName, s.resolved.APIURL
	settings := pool.Settings{
		Name: c.Pool.Name, StateDir: s.choice.StateDir, ConfigFile: s.choice.ConfigFile, Version: version,
		Provider: s.wrapped(logger), ProviderKind: c.Provider.Kind, Notes: notes,
		Workers: c.Pool.Workers, Policy: policyOf(c),
		Resources: providers.Resources{CPU: c.Sandbox.CPU, Memory: int64(c.Sandbox.Memory), Disk: int64(c.Sandbox.Disk)},
		Logs:      logs.Settings{MaxSize: int64(c.Logs.MaxSize), MaxFiles: c.Logs.MaxFiles, LineLimit: int(c.Logs.LineLimit)},
		Outpost:   found, APIURL: s.resolved.APIURL, Token: s.resolved.Token.Read, TokenSource: s.resolved.Token.Source(),
		Fleet: s.fleet, PollInterval: c.Outpost.PollInterval.D(), DeafAfter: c.Worker.DeafAfter.D(),
		Rand: rand.Float64, Logger: logger,
	}
	settings.Worker = s.workerSettings()
	return settings
}

func (s *setup) wrapped(logger *slog.Logger) providers.Provider {
	return providers.Log(s.local, logger)
}

// policyOf wants a configuration with outpost and address filled in: they make
// a running worker outdated too.
func policyOf(c configs.Config) plan.Policy {
	return plan.Policy{
		Initial: c.Restart.Initial.D(), Max: c.Restart.Max.D(), Jitter: c.Restart.Jitter, ResetAfter: c.Restart.ResetAfter.D(),
		CrashLoopAfter: c.Restart.CrashLoopAfter, ReplaceAfter: c.Restart.ReplaceAfter,
		StartWindow: c.Worker.StartWindow.D(), StopGrace: c.Worker.StopGrace.D(), DrainLimit: c.Worker.DrainLimit.D(),
		ClaimLife:      5 * time.Minute, // facts outposts.md 1.8
		ParallelStarts: c.Pool.ParallelStarts, MaxUnavailable: c.Pool.MaxUnavailable,
		ConfigHash: configs.Hash(c),
	}
}

func (s *setup) workerSettings() pool.WorkerSettings {
	c := s.config
	w := pool.WorkerSettings{
		Command: c.Worker.Command, Args: c.Worker.Args, Env: c.Worker.Env,
		ChromePath: c.Worker.ChromePath, Display: c.Worker.Display,
		Network:      worker.Network{Proxy: c.Network.Proxy, NoProxy: strings.Join(c.Network.NoProxy, ","), CAFile: c.Network.CAFile},
		Prepare:      worker.Preparation{Script: c.Worker.Prepare, GitUsername: c.Worker.GitUsername},
		PrepareLimit: c.Worker.PrepareTimeout.D(), Path: s.path,
	}
	for _, r := range c.Worker.Repos {
		w.Prepare.Repos = append(w.Prepare.Repos, worker.Repo{URL: r.URL, Branch: r.Branch, Depth: r.Depth})
	}
	if secret, ok := c.Worker.GitToken(); ok {
		w.GitToken = secret.Read
	}
	if secrets := c.Worker.SecretEnv; len(secrets) > 0 {
		w.Secrets = func(ctx context.Context) (map[string]string, error) { return readAll(ctx, secrets) }
	}
	return w
}

func readAll(ctx context.Context, secrets map[string]configs.Secret) (map[string]string, error) {
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		value, err := secrets[name].Read(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		values[name] = value
	}
	return values, nil
}
