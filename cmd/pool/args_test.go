package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"pgregory.net/rapid"
)

func TestReorder(t *testing.T) {
	app := clientApp()
	app.Commands = append(app.Commands, &cli.Command{Name: "config", Subcommands: []*cli.Command{
		{Name: "show", Flags: []cli.Flag{&cli.StringFlag{Name: "format"}}},
	}})
	for in, want := range map[string]string{
		"pool":                                          "pool",
		"pool status":                                   "pool status",
		"pool status -o json":                           "pool status -o json",
		"pool logs web-0 -f":                            "pool logs -f -- web-0",
		"pool logs web-0 --tail 5 web-1 -f":             "pool logs --tail 5 -f -- web-0 web-1",
		"pool logs web-0 --tail=5":                      "pool logs --tail=5 -- web-0",
		"pool --pool web -q logs web-0 -fn 5":           "pool --pool web -q logs -fn 5 -- web-0",
		"pool scale 3 --wait":                           "pool scale --wait -- 3",
		"pool cp web-0:a -":                             "pool cp -- web-0:a -",
		"pool logs -- -f":                               "pool logs -- -f",
		"pool exec -it web-0 -- cmd -x":                 "pool exec -it -- web-0 cmd -x",
		"pool exec web-0 cmd -it --":                    "pool exec -- web-0 cmd -it --",
		"pool exec web-0 -it -- cmd -t":                 "pool exec -it -- web-0 cmd -t",
		"pool exec web-0 -- -odd":                       "pool exec -- web-0 -odd",
		"pool exec -e A=1 -ite B=2 web-0 env -i":        "pool exec -e A=1 -ite B=2 -- web-0 env -i",
		"pool exec -- web-0 cmd -- x":                   "pool exec -- web-0 cmd -- x",
		"pool config show x --format json":              "pool config show --format json -- x",
		"pool config":                                   "pool config",
		"pool nonsense a -b":                            "pool nonsense a -b",
		"pool logs web-0 -f --generate-bash-completion": "pool logs web-0 -f --generate-bash-completion",
		"pool --pool":                                   "pool --pool",
	} {
		if got := strings.Join(reorder(strings.Fields(in), app), " "); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// TestReorderLosesNothing holds that no word vanishes or is made up, but "--".
func TestReorderLosesNothing(t *testing.T) {
	app := clientApp()
	words := []string{"pool", "logs", "exec", "scale", "-f", "-it", "-e", "--tail", "--tail=3", "x", "-", "--", "-zz", "--quiet", "--pool"}
	rapid.Check(t, func(t *rapid.T) {
		in := append([]string{"pool"}, rapid.SliceOf(rapid.SampledFrom(words)).Draw(t, "words")...)
		before := slices.Clone(in)
		out := reorder(in, app)
		if !slices.Equal(in, before) {
			t.Fatalf("the input was changed: %v", in)
		}
		plain := func(list []string) []string {
			list = slices.DeleteFunc(slices.Clone(list), func(w string) bool { return w == "--" })
			slices.Sort(list)
			return list
		}
		if !slices.Equal(plain(in), plain(out)) {
			t.Fatalf("%v became %v", in, out)
		}
	})
}
