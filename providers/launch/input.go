package launch

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/outpostpool/pool/providers"
)

// reserved are variables that a shell owns: it refuses to set them, or sets
// them to something of its own.
var reserved = []string{
	"_", "BASHOPTS", "BASH_VERSINFO", "BASHPID", "EUID", "GROUPS", "IFS", "LINENO",
	"OPTIND", "PPID", "RANDOM", "SECONDS", "SHELLOPTS", "UID",
}

// Input makes the script's standard input: shell text that sets cmd.Dir,
// cmd.Env, the marker and cmd.Args. Dir is absolute, or empty for the run
// directory itself. Streams and TTY of cmd play no part. Errors are of class
// Invalid and name a variable, never its value.
func Input(cmd providers.Cmd, launchID string) ([]byte, error) {
	op := "launch " + launchID
	switch {
	case !ValidID(launchID):
		return nil, providers.Errorf(providers.Invalid, fmt.Sprintf("launch %.40q", launchID),
			"a launch id is 1 to 128 characters of A-Z a-z 0-9 . _ -")
	case len(cmd.Args) == 0 || cmd.Args[0] == "":
		return nil, providers.Errorf(providers.Invalid, op, "no command given")
	case cmd.Dir != "" && !path.IsAbs(cmd.Dir):
		return nil, providers.Errorf(providers.Invalid, op, "directory %q is not absolute", cmd.Dir)
	}
	var b strings.Builder
	if cmd.Dir != "" {
		fmt.Fprintf(&b, "cd %s && unset OLDPWD || exit 126\n", Quote(cmd.Dir))
	}
	for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
		if err := checkVariable(name); err != nil {
			return nil, providers.Errorf(providers.Invalid, op, "%w", err)
		}
		if strings.ContainsRune(cmd.Env[name], 0) {
			return nil, providers.Errorf(providers.Invalid, op, "the value of %s holds a NUL byte", name)
		}
		fmt.Fprintf(&b, "export %s=%s\n", name, Quote(cmd.Env[name]))
	}
	fmt.Fprintf(&b, "export %s=%s\nset --", Marker, Quote(launchID))
	for _, arg := range cmd.Args {
		b.WriteString(" " + Quote(arg))
	}
	// The script takes text without this last line for cut off.
	b.WriteString("\npool_input=whole\n")
	if strings.ContainsRune(b.String(), 0) {
		return nil, providers.Errorf(providers.Invalid, op, "an argument or the directory holds a NUL byte")
	}
	return []byte(b.String()), nil
}

// Quote makes one word of POSIX shell text out of s, whatever bytes it holds.
func Quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func checkVariable(name string) error {
	for i, c := range []byte(name) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return fmt.Errorf("no shell can set a variable named %.40q", name)
		}
	}
	if name == "" || slices.Contains(reserved, name) {
		return fmt.Errorf("the shell keeps variable %q for itself", name)
	}
	return nil
}
