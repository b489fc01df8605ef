package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/providers"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "look at everything a pool needs and say what is wrong",
		OnUsageError: onUsageError,
		Flags: append(setupFlags(),
			&cli.BoolFlag{Name: "probe", Usage: "also make a sandbox, run a command in it and remove it"},
			outputFlag("json"),
		),
		Action: doctor,
	}
}

// doctorPatience is how long doctor waits for Devin Cloud: longer than a start
// does, since a person asks why.
const doctorPatience = 15 * time.Second

func doctor(c *cli.Context) error {
	if c.NArg() > 0 {
		return usageError(c, "doctor takes no argument (%q)", c.Args().First())
	}
	choice, err := choosePool(c, true)
	if err != nil && choice.ConfigErr == nil {
		return err
	}
	var p preflight
	s := &setup{choice: choice}
	if s.config, err = configOf(choice); err != nil {
		p.findings = append(p.findings, providers.Finding{Name: "config", Status: providers.Fail, Detail: err.Error()})
		return printFindings(c, p.findings)
	}
	p.findings = append(p.findings, configFinding(s))
	if err := s.resolve(c); err != nil {
		for problem := range strings.SplitSeq(err.Error(), "\n") {
			p.findings = append(p.findings, providers.Finding{Name: "account", Status: providers.Fail, Detail: problem})
		}
	} else if p.checkToken(c.Context, s) {
		p.checkAPI(c.Context, s, doctorPatience)
	}
	for _, note := range s.resolved.Notes {
		p.findings = append(p.findings, providers.Finding{Name: "note", Status: providers.Warn, Detail: note})
	}
	defer removeIfNew(choice.StateDir)()
	if err := s.openProvider(c.Context); err != nil {
		p.findings = append(p.findings, providers.Finding{Name: "provider", Status: providers.Fail, Detail: err.Error()})
	} else {
		p.checkCLI(c.Context, s)
		p.checkProvider(c.Context, s, c.Bool("probe"))
	}
	p.checkSize(s.config.Pool.Workers)
	p.findings = append(p.findings, supervisorFinding(c, s))
	return printFindings(c, p.findings)
}

// removeIfNew returns what removes the folders that a look made: a doctor
// leaves nothing behind.
func removeIfNew(stateDir string) func() {
	if _, err := os.Lstat(stateDir); err == nil {
		return func() {}
	}
	return func() {
		// Only empty folders go; any other is not the doctor's.
		for _, dir := range []string{"sandboxes/workspaces", "sandboxes", ""} {
			_ = os.Remove(filepath.Join(stateDir, dir))
		}
	}
}

func configFinding(s *setup) providers.Finding {
	if s.choice.ConfigFile == "" {
		return providers.Finding{Name: "config", Status: providers.OK, Detail: "none: defaults, flags and the environment (`pool init` writes one)"}
	}
	return providers.Finding{Name: "config", Status: providers.OK, Detail: s.choice.ConfigFile}
}

func supervisorFinding(c *cli.Context, s *setup) providers.Finding {
	client := control.Dial(filepath.Join(s.choice.StateDir, control.SocketName))
	defer client.Close()
	p, err := client.Pool(c.Context)
	if err != nil {
		return providers.Finding{Name: "pool", Status: providers.OK, Detail: fmt.Sprintf("%s does not run", s.choice.Pool)}
	}
	f := providers.Finding{Name: "pool", Status: providers.OK, Detail: fmt.Sprintf("%s runs (pid %d, version %s): %s", p.Name, p.PID, p.Version, p.Detail)}
	if p.Broken > 0 || p.State == control.PoolHeld {
		f.Status, f.Hint = providers.Warn, "`pool status` says more"
	}
	return f
}

// printFindings prints the list; its exit code says whether a start would be
// refused.
func printFindings(c *cli.Context, findings []providers.Finding) error {
	failed := 0
	rows := [][]string{}
	styles := map[providers.FindingStatus]string{providers.OK: green, providers.Warn: yellow, providers.Fail: red}
	for _, f := range findings {
		if f.Status == providers.Fail {
			failed++
		}
		detail := clean(f.Detail)
		if f.Hint != "" {
			detail += "; " + clean(f.Hint)
		}
		rows = append(rows, []string{styled(styles[f.Status], fmt.Sprintf("%-4s", f.Status)), f.Name, detail})
	}
	if wantsJSON(c) {
		if err := printJSON(c.App.Writer, findings); err != nil {
			return err
		}
	} else if err := printStyled(c.App.Writer, table(rows, 0)); err != nil {
		return err
	}
	if failed > 0 {
		return failWith(exitFailure, "%d of %d checks failed", failed, len(findings))
	}
	return nil
}
