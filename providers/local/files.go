package local

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/outpostpool/pool/providers"
)

// ReadFile reads a plain file of the workspace from offset on. A link that
// leads out of the workspace is Invalid, as is a path outside it.
func (s *Sandbox) ReadFile(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	op := "read " + name + " in " + s.meta.Name
	workspace, below, err := s.workspace(ctx, op, name)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	file, err := workspace.OpenFile(below, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, pathError(op, err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errLink
	default:
		_, err = file.Seek(offset, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, pathError(op, err)
	}
	return file, nil
}

// WriteFile writes a file of the workspace, whole or not at all. Its folder
// must exist; a link with its name is replaced, not followed.
func (s *Sandbox) WriteFile(ctx context.Context, name string, mode fs.FileMode, r io.Reader) error {
	op := "write " + name + " in " + s.meta.Name
	workspace, below, err := s.workspace(ctx, op, name)
	if err != nil {
		return err
	}
	defer workspace.Close()
	temporary := path.Join(path.Dir(below), ".pool-"+rand.Text())
	file, err := workspace.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return pathError(op, err)
	}
	_, err = io.Copy(file, contextReader{ctx, r})
	err = errors.Join(err, file.Chmod(mode.Perm()), file.Close())
	if err == nil {
		err = workspace.Rename(temporary, below)
	}
	if err != nil {
		workspace.Remove(temporary)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return pathError(op, err)
	}
	return nil
}

// workspace opens the workspace and makes a path inside the sandbox relative
// to it.
func (s *Sandbox) workspace(ctx context.Context, op, name string) (*os.Root, string, error) {
	if err := s.check(ctx, "open the workspace of"); err != nil {
		return nil, "", err
	}
	inside := s.p.info(s.meta).Workspace
	name = s.folder(name)
	if !within(name, inside) || name == inside {
		return nil, "", providers.Errorf(providers.Invalid, op, "only files below %s can be reached", inside)
	}
	root, err := openDir(s.p.root, workspacesDir+"/"+slotKey(s.meta.Labels))
	if err != nil {
		return nil, "", fileError(op, err)
	}
	return root, strings.TrimPrefix(name, inside+"/"), nil
}

// pathError is fileError for paths that people choose. What the system does
// not say, or says of the path itself, is wrong with the path.
func pathError(op string, err error) error {
	classed := fileError(op, err)
	var number syscall.Errno
	if !providers.Is(classed, providers.Transient) {
		return classed
	}
	if errors.As(err, &number) && !slices.Contains(ofThePath, number) {
		return classed
	}
	return &providers.Error{Class: providers.Invalid, Op: op, Err: err}
}

var ofThePath = []syscall.Errno{
	syscall.ELOOP, syscall.ENOTDIR, syscall.EISDIR, syscall.EACCES, syscall.EPERM, syscall.EINVAL, syscall.ENAMETOOLONG, syscall.ENXIO,
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
