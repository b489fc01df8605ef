package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/configs"
)

// poolRef is a pool on this machine.
type poolRef struct{ Name, StateDir, ConfigFile string }

// findPool tells which pool the command line means. A broken configuration
// does not keep anyone from a running pool.
func findPool(c *cli.Context) (poolRef, error) {
	choice, err := choosePool(c, false)
	if err != nil {
		return poolRef{}, err
	}
	return poolRef{Name: choice.Pool, StateDir: choice.StateDir, ConfigFile: choice.ConfigFile}, nil
}

// choosePool finds the pool; starting allows for one that does not exist yet.
func choosePool(c *cli.Context, starting bool) (configs.Choice, error) {
	return choose(chosen(c, "pool"), chosen(c, "config"), starting)
}

// rememberedChoice is the pool with the configuration it was last started with.
func rememberedChoice(c *cli.Context, file string) (configs.Choice, error) {
	choice, err := choose(chosen(c, "pool"), file, true)
	if err != nil {
		return choice, fmt.Errorf("the pool was last started with %s: %w", file, err)
	}
	return choice, nil
}

func choose(pool, config string, starting bool) (configs.Choice, error) {
	dir, err := os.Getwd()
	if err != nil {
		return configs.Choice{}, err
	}
	env := configs.Environ(os.Environ())
	home, err := configs.HomeDir(env["HOME"])
	if err != nil {
		return configs.Choice{}, err
	}
	choice, err := configs.Find(configs.FindInputs{
		Pool: pool, Config: config,
		Dir: dir, Env: env, Home: home, Starting: starting, List: configs.ListPools,
	})
	if err != nil {
		return choice, failWith(exitUsage, "%w", err)
	}
	return choice, nil
}

// chosen is a flag's value, wherever on the command line it stands.
func chosen(c *cli.Context, name string) string {
	for _, each := range c.Lineage() {
		if each.Command != nil && each.IsSet(name) {
			if value := each.String(name); value != "" {
				return value
			}
		}
	}
	return ""
}
