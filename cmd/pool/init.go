package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/configs"
	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/local"
)

func initCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Usage: "write a commented pool.toml from what is found here",
		OnUsageError: onUsageError,
		Flags: append(setupFlags(),
			&cli.StringFlag{Name: "name", Usage: "the pool's `NAME`"},
			&cli.IntFlag{Name: "workers", Aliases: []string{"n"}, Usage: "how many workers"},
		),
		Action: initialise,
	}
}

// initialise writes pool.toml beside the caller, or the file of --config. It
// asks only on a terminal and overwrites nothing.
func initialise(c *cli.Context) error {
	file := configs.ConfigFile
	if named := chosen(c, "config"); named != "" {
		file = named
	}
	if _, err := os.Lstat(file); err == nil {
		return failWith(exitFailure, "%s exists and is left as it is; `pool config check` looks at it", file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	in := configs.TemplateInput{Name: c.String("name"), Workers: c.Int("workers"), Platform: platforms[runtime.GOOS]}
	if in.Name == "" {
		in.Name = chosen(c, "pool")
	}
	findMachine(c.Context, &in)
	findAccount(c, &in)
	if err := askOutpost(c, &in); err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(configs.Template(in))
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	say(c, "wrote %s; next: `pool doctor`, then `pool up`", file)
	say(c, "code in a session can read the worker's token, and sessions of one worker share its workspace: one outpost per group of people who may see each other's work")
	return nil
}

// findMachine looks at what this machine has.
func findMachine(ctx context.Context, in *configs.TemplateInput) {
	home, err := configs.HomeDir(os.Getenv("HOME"))
	if err == nil {
		path := workerPath(nil, home)
		in.CLI, _ = lookUp("devin", path)
		if f := findCLI(ctx, "devin", path); f.Status == providers.OK {
			_, version, found := strings.Cut(f.Detail, ", ")
			if found {
				in.CLIVersion = version
			}
		}
	}
	if dir, err := os.MkdirTemp("", "pool-init-"); err == nil {
		defer os.RemoveAll(dir)
		_, err := local.New(local.Options{Dir: filepath.Join(dir, "sandboxes"), Isolation: "bwrap"})
		in.Bubblewrap = err == nil
	}
	_, err = exec.LookPath("docker")
	in.Docker = err == nil
}

// findAccount looks at what the token sees. What is missing stays a comment in
// the file.
func findAccount(c *cli.Context, in *configs.TemplateInput) {
	s := &setup{config: configs.Default()}
	s.config.Outpost.ID = "any"
	if err := s.resolve(c); err != nil {
		say(c, "%v", err)
		return
	}
	in.TokenEnv, in.TokenFile = s.resolved.Token.Env, s.resolved.Token.File
	if s.resolved.APIURL != configs.DefaultAPIURL {
		in.APIURL = s.resolved.APIURL
	}
	ctx, cancel := context.WithTimeout(c.Context, doctorPatience)
	defer cancel()
	all, err := s.fleet.Outposts(ctx)
	if err != nil {
		say(c, "%v", err)
		return
	}
	for _, o := range all {
		in.Outposts = append(in.Outposts, configs.OutpostSeen{ID: o.ID, Name: o.Name, Platform: o.Platform})
	}
	named := c.String("outpost")
	for _, o := range all {
		if o.ID == named || o.Name == named {
			in.Outpost = o.ID
		}
	}
	if len(all) == 1 && named == "" {
		in.Outpost = all[0].ID
	}
}

// askOutpost asks which outpost to serve, on a terminal only.
func askOutpost(c *cli.Context, in *configs.TemplateInput) error {
	if in.Outpost != "" || len(in.Outposts) < 2 || !isTerminal(os.Stdin) || !isTerminal(c.App.ErrWriter) {
		return nil
	}
	for i, o := range in.Outposts {
		fmt.Fprintf(c.App.ErrWriter, "%3d  %s (%s, %s)\n", i+1, clean(o.Name), clean(o.ID), clean(o.Platform))
	}
	fmt.Fprint(c.App.ErrWriter, "Which outpost shall the workers serve? (a number; empty decides later) ")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && n >= 1 && n <= len(in.Outposts) {
		in.Outpost = in.Outposts[n-1].ID
	}
	return nil
}
