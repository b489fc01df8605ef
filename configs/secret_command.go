package configs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// secretCommandLimit is how long a command may take to print a secret.
const secretCommandLimit = 30 * time.Second

// runSecretCommand runs a shell command that prints a secret. Its standard
// error is thrown away, since password managers print all sorts of things
// there, and errors must not carry any of it.
func runSecretCommand(ctx context.Context, command string, limit time.Duration) (string, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	cmd := exec.CommandContext(limited, "/bin/sh", "-c", command)
	cmd.Env = commandEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The shell's children hold the output open; the whole group has to go.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	out := &cappedBuffer{limit: secretLimit}
	cmd.Stdout = out

	err := cmd.Run()
	switch exit := (*exec.ExitError)(nil); {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the command for a secret was cancelled: %w", ctx.Err())
	case limited.Err() != nil:
		return "", fmt.Errorf("the command for a secret took longer than %s; it runs without a terminal and cannot ask anything", Duration(limit))
	case errors.As(err, &exit):
		return "", fmt.Errorf("the command for a secret failed (%s); run it yourself with only PATH and HOME set to see why", exit.ProcessState)
	case errors.Is(err, exec.ErrWaitDelay):
		return "", errors.New("the command for a secret left something running that holds its output open")
	case err != nil:
		return "", fmt.Errorf("cannot run the command for a secret: %w", bare(err))
	case out.over:
		return "", errors.New("the command for a secret printed more than 64 KiB; it should print the secret alone")
	}
	return out.kept.String(), nil
}

func commandEnv() []string {
	env := []string{"PATH=" + os.Getenv("PATH")}
	if home, err := HomeDir(os.Getenv("HOME")); err == nil {
		env = append(env, "HOME="+home)
	}
	return env
}

// cappedBuffer keeps the first limit bytes and swallows the rest, so that a
// command which floods ends by itself. The buffer is no embedded one, whose
// ReadFrom would get round Write.
type cappedBuffer struct {
	kept  bytes.Buffer
	limit int
	over  bool
}

func (b *cappedBuffer) Write(p []byte) (int, error) {
	room := b.limit - b.kept.Len()
	if len(p) > room {
		b.over = true
		b.kept.Write(p[:room])
		return len(p), nil
	}
	return b.kept.Write(p)
}
