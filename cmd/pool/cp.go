package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/outpostpool/pool/pool/control"
)

func cpCommand() *cli.Command {
	return &cli.Command{
		Name: "cp", Usage: "copy files and folders out of a sandbox, or into it",
		ArgsUsage: "WORKER:PATH PATH | PATH WORKER:PATH", OnUsageError: onUsageError,
		Description: "A PATH of a worker is relative to its workspace. With - as the second PATH a file goes\n" +
			"to standard output. A local path with a colon in it is written ./a:b. Needs tar in the sandbox.",
		Action: withPool(copyFiles),
	}
}

// place is one end of a copy. Worker is empty for this machine.
type place struct{ worker, path string }

// parsePlace splits WORKER:PATH. A slash before the colon makes it a path.
func parsePlace(text string) place {
	worker, name, ok := strings.Cut(text, ":")
	if !ok || worker == "" || strings.Contains(worker, "/") {
		return place{path: text}
	}
	return place{worker, name}
}

func copyFiles(c *cli.Context, client *control.Client) error {
	if c.NArg() != 2 {
		return usageError(c, "cp takes what to copy, and where to")
	}
	from, to := parsePlace(c.Args().Get(0)), parsePlace(c.Args().Get(1))
	switch {
	case from.path == "" || (to.path == "" && to.worker == ""):
		return usageError(c, "a path is empty")
	case from.worker != "" && to.worker == "" && to.path == "-":
		return download(c.Context, client, from, func(r io.Reader) error { return oneFile(r, c.App.Writer) })
	case from.worker != "" && to.worker == "":
		return download(c.Context, client, from, func(r io.Reader) error {
			return unpack(r, to.path, func(text string) { fmt.Fprintln(c.App.ErrWriter, "pool: "+clean(text)) })
		})
	case from.worker == "" && to.worker != "":
		return upload(c.Context, client, from.path, to)
	}
	return usageError(c, "exactly one side must be WORKER:PATH")
}

// download streams a tar archive of from, whose entries begin with the last
// element of its path, into take.
func download(ctx context.Context, client *control.Client, from place, take func(io.Reader) error) error {
	folder, name := path.Split(path.Clean(from.path))
	if name == ".." || name == "." || name == "" || name == "/" {
		folder, name = from.path, "."
	}
	if folder == "" {
		folder = "."
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	taken := make(chan error, 1)
	go func() {
		err := take(r)
		if err == nil || errors.Is(err, io.EOF) {
			// The padding; and tar is to say itself why an archive is empty.
			io.Copy(io.Discard, r)
		}
		r.CloseWithError(err)
		taken <- err
	}()
	err := runTar(ctx, client, from.worker, control.ExecStreams{Stdout: w}, "tar", "-c", "-f", "-", "-C", folder, "--", name)
	w.CloseWithError(err)
	// A failure of ours breaks the pipe, and comes back from it.
	if took := <-taken; took != nil && (err == nil || errors.Is(err, took)) {
		return took
	}
	return err
}

// runTar runs a command of the copy; its standard error becomes the error.
func runTar(ctx context.Context, client *control.Client, worker string, s control.ExecStreams, args ...string) error {
	said := &head{room: 4 << 10}
	s.Stderr = said
	code, err := client.Exec(ctx, worker, control.ExecRequest{Args: args}, s)
	switch {
	case err != nil:
		return err
	case code == 127:
		return failWith(exitFailure, "there is no %s in the sandbox of %s; put it into the image", args[0], worker)
	case code != 0:
		return failWith(exitFailure, "%s in %s failed with code %d: %s", args[0], worker, code, strings.TrimSpace(said.text.String()))
	}
	return nil
}

// head keeps the first bytes written to it.
type head struct {
	text bytes.Buffer
	room int
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.room)
	h.text.Write(p[:n])
	h.room -= n
	return len(p), nil
}

// oneFile writes the only file of an archive to out.
func oneFile(r io.Reader, out io.Writer) error {
	archive := tar.NewReader(r)
	entry, err := archive.Next()
	if err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	if entry.Typeflag != tar.TypeReg {
		return failWith(exitFailure, "%s is not a regular file, and only one goes to standard output; try: pool exec WORKER -- tar -c %s", entry.Name, entry.Name)
	}
	_, err = io.Copy(out, archive)
	return err
}

// upload copies a local file or folder to a worker: into the folder to, when
// that is one, else as to.
func upload(ctx context.Context, client *control.Client, from string, to place) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	folder, name, err := target(ctx, client, from, to)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(w, from, name, info)
		w.CloseWithError(err)
		packed <- err
	}()
	err = runTar(ctx, client, to.worker, control.ExecStreams{Stdin: r}, "tar", "-x", "-o", "-p", "-f", "-", "-C", folder)
	r.CloseWithError(io.ErrClosedPipe)
	if failed := <-packed; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return failed
	}
	return err
}

// target tells the folder in the sandbox and the name in it.
func target(ctx context.Context, client *control.Client, from string, to place) (folder, name string, err error) {
	where := to.path
	if where == "" {
		where = "."
	}
	local, err := filepath.Abs(from)
	if err != nil {
		return "", "", err
	}
	code, err := client.Exec(ctx, to.worker, control.ExecRequest{Args: []string{"test", "-d", where}}, control.ExecStreams{})
	if err != nil {
		return "", "", err
	}
	if code == 0 || strings.HasSuffix(where, "/") {
		return where, filepath.Base(local), nil
	}
	return path.Dir(where), path.Base(where), nil
}
