package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/outpostpool/pool/providers"
)

// meta is meta.json: what a sandbox is.
type meta struct {
	Name      string              `json:"name"`
	Labels    providers.Labels    `json:"labels"`
	Resources providers.Resources `json:"resources,omitzero"`
	Created   time.Time           `json:"created"`
}

// incarnation lacks the boot id, which is the provider's to add.
func (m meta) incarnation() string { return fmt.Sprintf("%x", m.Created.UnixNano()) }

// owner is workspaces/<slot key>.json: the sandbox that has the workspace, or
// had it last.
type owner struct {
	Sandbox string           `json:"sandbox"`
	Labels  providers.Labels `json:"labels"`
	Created time.Time        `json:"created"` // of the workspace
}

// maxRecord bounds what we read of a file that a session without walls can
// write.
const maxRecord = 64 << 10

func readMeta(root *os.Root, name string) (meta, error) {
	var m meta
	err := readJSON(root, name+"/"+metaFile, &m)
	if err != nil {
		return meta{}, fileError("open "+name, err)
	}
	if m.Name != name || checkSpec(providers.Spec{Name: m.Name, Labels: m.Labels}) != nil {
		return meta{}, providers.Errorf(providers.Invalid, "open "+name, "its %s is not one of ours", metaFile)
	}
	return m, nil
}

// fileError gives an error of the file system its class. What is not there
// surely does not exist; anything else may pass.
func fileError(op string, err error) error {
	var classed *providers.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &classed):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return &providers.Error{Class: providers.NotFound, Op: op, Err: errors.New("it does not exist")}
	case errors.Is(err, errLink), errors.Is(err, errRecord):
		return &providers.Error{Class: providers.Invalid, Op: op, Err: err}
	default:
		return &providers.Error{Class: providers.Transient, Op: op, Err: err}
	}
}

var (
	errLink   = errors.New("it is not a plain file or folder")
	errRecord = errors.New("the record cannot be read")
)

// openRegular opens a plain file below root: never through a link, never a
// pipe or device that a session put in its place.
func openRegular(root *os.Root, name string, flag int) (*os.File, error) {
	file, err := root.OpenFile(name, flag|openNonblock, 0o600)
	if err != nil {
		return nil, err
	}
	if err := sameAsNamed(root, name, file, isRegular); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return file, nil
}

func isRegular(mode fs.FileMode) bool { return mode.IsRegular() }

// openDir opens a folder below root, never through a link.
func openDir(root *os.Root, name string) (*os.Root, error) {
	dir, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := dir.Open(".")
	if err == nil {
		err = sameAsNamed(root, name, opened, fs.FileMode.IsDir)
		opened.Close()
	}
	if err != nil {
		dir.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return dir, nil
}

// sameAsNamed compares what was opened with what the name is without following
// it: os.Root follows links that stay inside, which is too much for us.
func sameAsNamed(root *os.Root, name string, file *os.File, kind func(fs.FileMode) bool) error {
	opened, err := file.Stat()
	if err != nil {
		return err
	}
	named, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if !kind(named.Mode()) || !os.SameFile(opened, named) {
		return errLink
	}
	return nil
}

func readSmall(root *os.Root, name string) ([]byte, error) {
	file, err := openRegular(root, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxRecord))
}

func readJSON(root *os.Root, name string, into any) error {
	data, err := readSmall(root, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%w: %v", errRecord, err)
	}
	return nil
}

// writeJSON replaces a record in one step.
func writeJSON(root *os.Root, name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return writeSmall(root, name, append(data, '\n'))
}

func writeSmall(root *os.Root, name string, data []byte) error {
	temporary := name + ".new"
	if err := root.RemoveAll(temporary); err != nil {
		return err
	}
	file, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		root.RemoveAll(temporary)
	}
	return err
}

// readNames lists a folder below root.
func readNames(root *os.Root, name string) ([]string, error) {
	dir, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}
