package launchtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Shells are the ones the launch protocol is at home under.
var Shells = []string{"dash", "bash", "busybox"}

// ShellPath fills dir with links and returns a PATH under which sh is that
// shell. With busybox every command is its applet and there is no other.
func ShellPath(dir, shell string) (string, error) {
	file, err := exec.LookPath(shell)
	if err != nil {
		return "", fmt.Errorf("%s is needed to test the launch protocol: %w", shell, err)
	}
	if shell != "busybox" {
		return dir + ":/usr/bin:/bin", os.Symlink(file, filepath.Join(dir, "sh"))
	}
	list, err := exec.Command(file, "--list").Output()
	if err != nil {
		return "", fmt.Errorf("list the applets of busybox: %w", err)
	}
	for _, applet := range strings.Fields(string(list)) {
		if err := os.Symlink(file, filepath.Join(dir, applet)); err != nil {
			return "", err
		}
	}
	return dir, nil
}
