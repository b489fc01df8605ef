package main

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outpostpool/pool/pool/control/controltest"
)

// tree writes files by name; "a -> b" is a link, "a/" a folder.
func tree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if link, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(link, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func TestCpBothWays(t *testing.T) {
	b, _ := serve(t)
	sandbox, here := t.TempDir(), t.TempDir()
	b.OnExec = controltest.RunHere(sandbox)
	t.Chdir(here)
	tree(t, sandbox, map[string]string{"repos/app/main.go": "package", "repos/app/run.sh": "#!", "repos/app/link": "-> main.go", "one file": "1\x00\xff"})
	os.Chmod(filepath.Join(sandbox, "repos/app/run.sh"), 0o755)
	os.Mkdir(filepath.Join(here, "there"), 0o755)
	for _, words := range [][]string{
		{"cp", "web-0:repos/app", "new"}, {"cp", "web-0:repos/app/", "there"}, {"cp", "web-0:one file", "there/"},
		{"cp", "web-0:one file", "renamed"}, {"cp", "web-0:one file", "renamed"},
		{"cp", "new", "web-0:up"}, {"cp", "renamed", "web-0:up"}, {"cp", "renamed", "web-0:other"}, {"cp", "new", "web-0:repos/"},
	} {
		if r := run(t, nil, words...); r.code != exitOK || r.out+r.errors != "" {
			t.Errorf("%v: %+v", words, r)
		}
	}
	for path, want := range map[string]string{
		"new/main.go": "package", "new/link": "package", "there/app/main.go": "package", "there/one file": "1\x00\xff", "renamed": "1\x00\xff",
		sandbox + "/up/main.go": "package", sandbox + "/up/renamed": "1\x00\xff", sandbox + "/other": "1\x00\xff", sandbox + "/repos/new/link": "package",
	} {
		if got := read(t, path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	for _, path := range []string{"new/run.sh", sandbox + "/up/run.sh"} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if info, err := os.Stat("renamed"); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("renamed: %v", err)
	}
	if to, err := os.Readlink("new/link"); to != "main.go" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if r := run(t, nil, "cp", "web-0:one file", "-"); r.code != exitOK || r.out != "1\x00\xff" {
		t.Errorf("to standard output: %+v", r)
	}
	for says, words := range map[string][]string{
		"absent":           {"cp", "web-0:absent", "x"},
		"no such file":     {"cp", "nothing", "web-0:x"},
		"no worker":        {"cp", "web-9:a", "x"},
		"not a regular":    {"cp", "web-0:repos", "-"},
		"is a link to":     {"cp", "web-0:repos/app/link", "x"},
		"failed with code": {"cp", "renamed", "web-0:no/such/folder/x"},
	} {
		if r := run(t, nil, words...); r.code != exitFailure || !strings.Contains(r.errors, says) {
			t.Errorf("%v: %+v, want %q", words, r, says)
		}
	}
}

func TestCpLargeFile(t *testing.T) {
	b, _ := serve(t)
	sandbox, here := t.TempDir(), t.TempDir()
	b.OnExec = controltest.RunHere(sandbox)
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	if err := os.WriteFile(filepath.Join(sandbox, "big"), big, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"cp", "web-0:big", here}, {"cp", here + "/big", "web-0:again"}} {
		if r := run(t, nil, words...); r.code != exitOK {
			t.Fatalf("%v: %+v", words, r)
		}
	}
	if got := read(t, filepath.Join(sandbox, "again")); got != string(big) {
		t.Error("what came back differs")
	}
}

func TestParsePlace(t *testing.T) {
	for text, want := range map[string]place{
		"web-0:a/b": {"web-0", "a/b"}, "0:": {"0", ""}, "a/b:c": {"", "a/b:c"}, "./a:b": {"", "./a:b"}, ":x": {"", ":x"}, "x": {"", "x"}, "-": {"", "-"},
	} {
		if got := parsePlace(text); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// archive makes one of headers; a regular file holds "evil".
func archive(t testing.TB, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		if h.Typeflag == tar.TypeReg {
			h.Size = 4
		}
		h.Mode |= 0o755
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			w.Write([]byte("evil"))
		}
	}
	w.Close()
	return &out
}

func folder(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name} }
func file(name string) tar.Header   { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
func link(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}
func hard(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}

// TestHostileArchives holds that nothing outside the destination is written,
// and that no link that leaves it is made.
func TestHostileArchives(t *testing.T) {
	for name, entries := range map[string][]tar.Header{
		"dots":              {folder("d"), file("d/../../victim")},
		"dots at the top":   {file("../victim")},
		"absolute":          {folder("d"), file("/victim")},
		"another top":       {folder("d"), file("victim")},
		"absolute link":     {folder("d"), link("d/l", "/"), file("d/l/victim")},
		"link up":           {folder("d"), link("d/l", "../.."), file("d/l/victim")},
		"link as file":      {folder("d"), link("d/l", "../victim"), file("d/l")},
		"link through link": {folder("d"), folder("d/p"), folder("d/p/q"), link("d/p/q/r", "../.."), link("d/p/q/r/l", "../../.."), file("d/l/victim")},
		"hard link out":     {folder("d"), hard("d/l", "../victim"), file("d/l")},
		"hard link of link": {folder("d"), folder("d/p"), link("d/p/l", "../x"), hard("d/m", "d/p/l")},
		"device":            {folder("d"), {Typeflag: tar.TypeChar, Name: "d/null"}},
		"fifo":              {{Typeflag: tar.TypeFifo, Name: "d"}},
		"set-user-id":       {folder("d"), {Typeflag: tar.TypeReg, Name: "d/su", Mode: 0o4000}},
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			tree(t, outer, map[string]string{"victim": "precious", "in/x": ""})
			inner := filepath.Join(outer, "in")
			err := unpack(archive(t, entries...), inner, func(string) {})
			checkContained(t, outer, inner)
			_ = err // refused or left out: both are fine
		})
	}
}

func checkContained(t testing.TB, outer, inner string) {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(outer, "victim")); err != nil || string(text) != "precious" {
		t.Errorf("outside was written: %q, %v", text, err)
	}
	if entries, _ := os.ReadDir(outer); len(entries) != 2 {
		t.Errorf("something new outside: %v", entries)
	}
	filepath.WalkDir(inner, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, _ := d.Info()
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			if full := filepath.Join(filepath.Dir(p), to); filepath.IsAbs(to) || !strings.HasPrefix(full+"/", inner+"/") {
				t.Errorf("%s leads out, to %s", p, to)
			}
		case d.Type() != 0 && !d.IsDir(), info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
			t.Errorf("%s is %v", p, info.Mode())
		}
		return nil
	})
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("d/\x00l>..\x00l/victim"))
	f.Add([]byte("d/\x00p/\x00p/q>..\x00p/q/r>../..\x00m=p/q"))
	f.Fuzz(func(t *testing.T, script []byte) {
		entries := []tar.Header{folder("d")}
		for _, line := range strings.Split(string(script), "\x00") {
			from, to, isLink := strings.Cut(line, ">")
			name, old, isHard := strings.Cut(line, "=")
			switch {
			case line == "" || strings.ContainsAny(line, "\n"):
			case isLink:
				entries = append(entries, link("d/"+from, to))
			case isHard:
				entries = append(entries, hard("d/"+name, "d/"+old))
			case strings.HasSuffix(line, "/"):
				entries = append(entries, folder("d/"+line))
			default:
				entries = append(entries, file("d/"+line))
			}
		}
		outer := t.TempDir()
		tree(t, outer, map[string]string{"victim": "precious", "in/x": ""})
		unpack(archive(t, entries...), filepath.Join(outer, "in"), func(string) {})
		checkContained(t, outer, filepath.Join(outer, "in"))
	})
}
