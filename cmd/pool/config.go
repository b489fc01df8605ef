package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/configs"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "check, show or describe the configuration",
		Subcommands: []*cli.Command{
			{Name: "check", Usage: "say what is wrong with the file, all of it", OnUsageError: onUsageError, Action: configCheck},
			{Name: "show", Usage: "print the whole configuration in force, defaults included", OnUsageError: onUsageError, Action: configShow},
			{Name: "schema", Usage: "print a JSON schema for editors", OnUsageError: onUsageError, Action: configSchema},
		},
	}
}

func configCheck(c *cli.Context) error {
	choice, err := choosePool(c, true)
	if err != nil {
		return err
	}
	if choice.ConfigFile == "" {
		return failWith(exitUsage, "there is no pool.toml here; name one with --config, or write one with pool init")
	}
	if _, err := configOf(choice); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s is fine: pool %s\n", choice.ConfigFile, choice.Pool)
	return err
}

func configShow(c *cli.Context) error {
	choice, err := choosePool(c, true)
	if err != nil {
		return err
	}
	config, err := configOf(choice)
	if err != nil {
		return err
	}
	_, err = c.App.Writer.Write(configs.Show(config))
	return err
}

func configSchema(c *cli.Context) error {
	_, err := c.App.Writer.Write(configs.Schema())
	return err
}
