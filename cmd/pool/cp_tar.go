package main

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// pack writes a local file or folder as an archive whose only top entry is
// name. Links inside a folder stay links.
func pack(w io.Writer, from, name string, info fs.FileInfo) error {
	archive := tar.NewWriter(w)
	var err error
	if info.IsDir() {
		err = packFolder(archive, from, name)
	} else {
		err = packFile(archive, func() (fs.File, error) { return os.Open(from) }, name, info)
	}
	return errors.Join(err, archive.Close())
}

func packFolder(archive *tar.Writer, from, name string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		entry := path.Join(name, p)
		switch info.Mode().Type() {
		case 0:
			return packFile(archive, func() (fs.File, error) { return root.Open(p) }, entry, info)
		case fs.ModeDir:
			return archive.WriteHeader(header(info, entry+"/", ""))
		case fs.ModeSymlink:
			link, err := root.Readlink(p)
			if err != nil {
				return err
			}
			return archive.WriteHeader(header(info, entry, link))
		}
		return nil // a socket, a pipe or a device means nothing elsewhere
	})
}

func packFile(archive *tar.Writer, open func() (fs.File, error), name string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a folder", info.Name())
	}
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := archive.WriteHeader(header(info, name, "")); err != nil {
		return err
	}
	// A file that grows meanwhile is copied as long as it was.
	if _, err := io.CopyN(archive, f, info.Size()); err != nil {
		return fmt.Errorf("%s became shorter while it was read: %w", name, err)
	}
	return nil
}

// header names no owner: the other side's user owns what arrives there.
func header(info fs.FileInfo, name, link string) *tar.Header {
	h := &tar.Header{Name: name, Linkname: link, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch {
	case link != "":
		h.Typeflag = tar.TypeSymlink
	case info.IsDir():
		h.Typeflag = tar.TypeDir
	default:
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
	}
	h.ModTime = h.ModTime.Truncate(time.Second) // what every tar can read
	return h
}

// unpack writes an archive with one top entry to dest: into it when it is a
// folder, else as it. What a sandbox sends is hostile. Everything happens
// under one os.Root: of the new folder, or for a single file of the folder
// that holds it. Files are made anew and moved into place, so that no link
// is written through, and no link is made that leads out. warn names what was
// left out.
func unpack(r io.Reader, dest string, warn func(string)) error {
	archive := tar.NewReader(r)
	top, err := archive.Next()
	if err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	base := strings.TrimSuffix(path.Clean(top.Name), "/")
	info, err := os.Stat(dest)
	switch into := err == nil && info.IsDir(); {
	case into && base != ".":
		if !filepath.IsLocal(base) || strings.Contains(base, "/") {
			return fmt.Errorf("the archive begins with %q, which is no plain name", top.Name)
		}
		dest = filepath.Join(dest, base)
	case !into && strings.HasSuffix(dest, "/") && top.Typeflag != tar.TypeDir:
		return fmt.Errorf("%s is not a folder", dest)
	}
	switch top.Typeflag {
	case tar.TypeReg:
		return unpackOne(archive, top, filepath.Clean(dest))
	case tar.TypeDir:
		return unpackFolder(archive, top, base, filepath.Clean(dest), warn)
	case tar.TypeSymlink:
		return fmt.Errorf("%s is a link to %s; copy that", top.Name, top.Linkname)
	}
	return fmt.Errorf("%s is neither a file nor a folder", top.Name)
}

func unpackOne(archive *tar.Reader, entry *tar.Header, dest string) error {
	root, err := os.OpenRoot(filepath.Dir(dest))
	if err != nil {
		return err
	}
	defer root.Close()
	return writeFile(root, filepath.Base(dest), entry, archive)
}

func unpackFolder(archive *tar.Reader, top *tar.Header, base, dest string, warn func(string)) error {
	if err := os.Mkdir(dest, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	root, err := os.OpenRoot(dest)
	if err != nil {
		return err
	}
	defer root.Close()
	// Folders get their modes last: one without the right to write is still
	// to be filled.
	modes := []*tar.Header{{Name: ".", Mode: top.Mode}}
	for {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		name, ok := inside(base, entry.Name)
		if !ok {
			return fmt.Errorf("the archive holds %q, which leads out of %s", entry.Name, dest)
		}
		if entry.Typeflag == tar.TypeDir {
			modes = append(modes, &tar.Header{Name: name, Mode: entry.Mode})
		}
		if err := unpackEntry(root, base, name, entry, archive, warn); err != nil {
			return err
		}
	}
	for i := len(modes) - 1; i >= 0; i-- {
		if err := root.Chmod(modes[i].Name, permissions(modes[i])); err != nil {
			return err
		}
	}
	return nil
}

// inside returns the path of an entry relative to the top one.
func inside(base, name string) (string, bool) {
	rel, err := filepath.Rel(base, path.Clean(name))
	return rel, err == nil && filepath.IsLocal(rel) && filepath.IsLocal(path.Clean(name))
}

func unpackEntry(root *os.Root, base, name string, entry *tar.Header, content io.Reader, warn func(string)) error {
	if through := linkAbove(root, name); through != "" {
		warn(fmt.Sprintf("left out: %s lies behind the link %s", entry.Name, through))
		return nil
	}
	switch entry.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o700)
	case tar.TypeReg:
		return writeFile(root, name, entry, content)
	case tar.TypeSymlink:
		if filepath.IsAbs(entry.Linkname) || !filepath.IsLocal(filepath.Join(filepath.Dir(name), entry.Linkname)) {
			warn(fmt.Sprintf("left out: %s is a link that leads out, to %s", entry.Name, entry.Linkname))
			return nil
		}
		return replace(root, name, func(fresh string) error { return root.Symlink(entry.Linkname, fresh) })
	case tar.TypeLink:
		old, ok := inside(base, entry.Linkname)
		info, err := root.Lstat(old)
		if !ok || err != nil || !info.Mode().IsRegular() {
			warn(fmt.Sprintf("left out: %s is a link to %s, which is no file copied before", entry.Name, entry.Linkname))
			return nil
		}
		return replace(root, name, func(fresh string) error { return root.Link(old, fresh) })
	}
	warn(fmt.Sprintf("left out: %s is neither a file, a folder nor a link", entry.Name))
	return nil
}

// linkAbove returns the first link among the folders above name. No archive
// of a real tree has an entry behind one; behind one, a harmless-looking
// relative link could lead out.
func linkAbove(root *os.Root, name string) string {
	for i, c := range name {
		if c != filepath.Separator {
			continue
		}
		if info, err := root.Lstat(name[:i]); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return name[:i]
		}
	}
	return ""
}

func writeFile(root *os.Root, name string, entry *tar.Header, content io.Reader) error {
	return replace(root, name, func(fresh string) error {
		f, err := root.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		// By descriptor: the name could mean something else by now.
		return errors.Join(err, f.Chmod(permissions(entry)), f.Close())
	})
}

// replace makes something under a fresh name and moves it to its place.
func replace(root *os.Root, name string, make func(fresh string) error) error {
	fresh := filepath.Join(filepath.Dir(name), ".pool-cp-"+rand.Text())
	err := make(fresh)
	if err == nil {
		err = root.Rename(fresh, name)
	}
	if err != nil {
		root.Remove(fresh)
	}
	return err
}

// permissions drops set-user-id and its kin: they meant another machine's user.
func permissions(h *tar.Header) fs.FileMode { return fs.FileMode(h.Mode) & 0o777 }
