package configs

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEnvFilesAsGuidesWriteThem(t *testing.T) {
	source := "\ufeff# Devin Outposts\r\nOUTPOST_ID=outpost_env-1\r\n\nexport DEVIN_OUTPOSTS_TOKEN='cog_a$b # c'\n" +
		"  export\tSPACED =  some words  # a comment\nEMPTY=\nHASH=a#b\nONLY= # nothing\n" +
		"DOUBLE=\"a \\\"b\\\" \\$c \\n\\x\" # comment\nMANY=\"one\ntwo\"\nAFTER=1\nEQ=a=b==\nEMPTY_QUOTED=''\nexported=no\nTWICE=1\nTWICE=2"
	want := map[string]string{
		"OUTPOST_ID": "outpost_env-1", "DEVIN_OUTPOSTS_TOKEN": "cog_a$b # c", "SPACED": "some words", "EMPTY": "",
		"HASH": "a#b", "ONLY": "", "DOUBLE": "a \"b\" $c \n\\x", "MANY": "one\ntwo", "AFTER": "1", "EQ": "a=b==",
		"EMPTY_QUOTED": "", "exported": "no", "TWICE": "2",
	}
	got, err := ParseEnvFile(".env", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestWrongEnvFiles(t *testing.T) {
	for source, want := range map[string]string{
		"A=1\nhunter2":             ".env:2: is not KEY=VALUE",
		"hunter2 hunter2=1":        ".env:1: is not KEY=VALUE",
		"export\nA=1":              ".env:1: is not KEY=VALUE",
		"A=\"hunter2\nB=2":         ".env:1: has a quote that is never closed",
		"\n\nA='hunter2":           ".env:3: has a quote that is never closed",
		"A=\"x\ny\"\nB='x'hunter2": ".env:3: goes on after the closing quote",
		"1A=hunter2":               ".env:1: is not KEY=VALUE",
	} {
		_, err := ParseEnvFile(".env", []byte(source))
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", source, err, want)
		}
	}
}

func TestAnEnvFileOthersCanReadIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".env")
	if err := os.WriteFile(file, []byte("A=hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if vars, err := ReadEnvFile(file); err != nil || vars["A"] != "hunter2" {
		t.Errorf("a private file is read as %q, %v", vars, err)
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o620} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		_, err := ReadEnvFile(file)
		if err == nil || !strings.Contains(err.Error(), "chmod 600 "+file) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

func FuzzParseEnvFile(f *testing.F) {
	f.Add("A=1\nexport B='x'\nC=\"a\\\"\nb\" # c")
	f.Add("A=\"\\")
	f.Add("=\n'\n\"")
	f.Fuzz(func(t *testing.T, source string) {
		vars, err := ParseEnvFile("f", []byte(source))
		if err != nil && strings.Count(err.Error(), "\n") > 0 {
			t.Fatalf("more than one line: %q", err)
		}
		for key := range vars {
			if !envName.MatchString(key) {
				t.Fatalf("%q is no name", key)
			}
		}
	})
}
