package configs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// Secret names where a secret comes from. Exactly one of Env, File and
// Command is set. It never holds the secret.
type Secret struct {
	Env     string `toml:"env,omitempty" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" patternDoc:"the name of a variable, such as MY_TOKEN" doc:"The variable of pool's own environment that holds the secret."`
	File    string `toml:"file,omitempty" path:"yes" doc:"The file that holds the secret. Only you may be able to read it (chmod 600)."`
	Command string `toml:"command,omitempty" doc:"A shell command that prints the secret. It runs with PATH and HOME only, for at most 30 s."`

	// EnvFile, with Env, is the file of variables that holds it, from
	// --env-file. A configuration cannot set it.
	EnvFile string `toml:"-"`
}

// Source says in words where the secret comes from.
func (s Secret) Source() string {
	switch {
	case s.EnvFile != "":
		return fmt.Sprintf("%s in the file %s", s.Env, s.EnvFile)
	case s.Env != "":
		return s.Env + " in the environment"
	case s.File != "":
		return "the file " + s.File
	case s.Command != "":
		// The command's text may hold what nobody should see in a status line.
		return "a command"
	}
	return "nowhere"
}

// Read returns the secret without the white space around it. Its errors say
// where it was looked for and what to do, and never what was found there.
func (s Secret) Read(ctx context.Context) (string, error) {
	value, err := s.read(ctx)
	if err != nil {
		return "", err
	}
	value = strings.TrimSpace(value)
	switch {
	case value == "":
		return "", fmt.Errorf("%s is empty", s.Source())
	case strings.ContainsRune(value, 0) || !utf8.ValidString(value):
		return "", fmt.Errorf("%s does not hold text", s.Source())
	}
	return value, nil
}

func (s Secret) read(ctx context.Context) (string, error) {
	switch {
	case s.EnvFile != "":
		vars, err := ReadEnvFile(s.EnvFile)
		if err != nil {
			return "", err
		}
		value, found := vars[s.Env]
		if !found {
			return "", fmt.Errorf("%s is not set in %s; add a line %s=…", s.Env, s.EnvFile, s.Env)
		}
		return value, nil
	case s.Env != "":
		value, found := os.LookupEnv(s.Env)
		if !found {
			return "", fmt.Errorf("%s is not set in the environment; export it, or name a file instead", s.Env)
		}
		return value, nil
	case s.File != "":
		data, err := readPrivateFile(s.File)
		return string(data), err
	case s.Command != "":
		return runSecretCommand(ctx, s.Command, secretCommandLimit)
	}
	return "", errors.New("no source is named for this secret; name env, file or command")
}
