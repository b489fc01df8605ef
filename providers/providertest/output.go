package providertest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/outpostpool/pool/providers"
)

// printed is shell text that prints the file "data" and ends.
const printed = "cat data"

var outputCases = []testCase{
	{"output is byte-exact from any offset", func(b *bench) {
		s := b.sandbox()
		want := everyByte(200_001)
		b.put(s, "data", want)
		p := b.launch(s, "L1", b.cmd(printed))
		b.wait(p)
		if got := b.output(p, 0); !bytes.Equal(got, want) {
			b.Fatalf("%d bytes were printed, %d read, first difference at %d", len(want), len(got), firstDifference(want, got))
		}
		again, err := b.reopen(s).Process(b.ctx)
		b.must(err, "process")
		rapid.Check(b.T, func(rt *rapid.T) {
			offset := rapid.Int64Range(0, int64(len(want))).Draw(rt, "offset")
			length := rapid.IntRange(1, 4000).Draw(rt, "length")
			reader, err := again.Output(b.ctx, offset)
			if err != nil {
				rt.Fatalf("output from %d: %v", offset, err)
			}
			defer reader.Close()
			got := make([]byte, min(length, len(want)-int(offset)))
			if _, err := io.ReadFull(reader, got); err != nil {
				rt.Fatalf("read %d bytes from %d: %v", len(got), offset, err)
			}
			if !bytes.Equal(got, want[offset:int(offset)+len(got)]) {
				rt.Fatalf("from %d: difference after %d bytes", offset, firstDifference(want[offset:], got))
			}
		})
	}},
	{"output from its end is empty and ends", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "L1", b.cmd("echo hello"))
		b.wait(p)
		if got := b.output(p, 6); len(got) != 0 {
			b.Errorf("read %q behind the end", got)
		}
	}},
	{"output holds both streams and more than a pipe does", func(b *bench) {
		s := b.sandbox()
		want := everyByte(3 << 20)
		b.put(s, "data", want)
		p := b.launch(s, "L1", b.cmd("cat data; cat data >&2"))
		b.wait(p)
		want = append(want, want...)
		if got := b.output(p, 0); !bytes.Equal(got, want) {
			b.Errorf("%d bytes were printed, %d read, first difference at %d", len(want), len(got), firstDifference(want, got))
		}
	}},
	{"output follows a living process and ends after it", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "L1", b.cmd(`echo one; until [ -e go ]; do sleep 0.05; done; printf two`))
		reader, err := p.Output(b.ctx, 2)
		b.must(err, "output")
		defer reader.Close()
		var seen buffer
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(&seen, reader)
			ended <- err
		}()
		b.until("the first line is read", func() bool { return seen.String() == "e\n" })
		select {
		case err := <-ended:
			b.Fatalf("the reader ended before the process: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		b.sh(s, "touch go")
		select {
		case err := <-ended:
			b.must(err, "read to the end")
		case <-time.After(b.f.Patience):
			b.Fatalf("the reader does not end after the process")
		}
		if got := seen.String(); got != "e\ntwo" {
			b.Errorf("read %q, want %q", got, "e\ntwo")
		}
	}},
	{"output is not lost while nobody reads it", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "L1", b.cmd(`i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i+1)); done`))
		b.wait(p)
		again, err := b.reopen(s).Process(b.ctx)
		b.must(err, "process")
		lines := strings.Split(strings.TrimSpace(string(b.output(again, 0))), "\n")
		if len(lines) != 2000 || lines[0] != "line 0" || lines[1999] != "line 1999" {
			b.Errorf("%d lines, from %q to %q", len(lines), lines[0], lines[len(lines)-1])
		}
	}},
	{"a reader ends with its context", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "L1", b.cmd(beat+"beat worker"))
		ctx, cancel := context.WithCancel(b.ctx)
		reader, err := p.Output(ctx, 0)
		b.must(err, "output")
		defer reader.Close()
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, reader)
			ended <- err
		}()
		cancel()
		select {
		case err := <-ended:
			if err == nil {
				b.Errorf("a cancelled reader says that the output is complete")
			}
		case <-time.After(b.f.Patience):
			b.Fatalf("a cancelled reader does not end")
		}
		b.grows(s, "worker")
	}},
	{"the next launch's output begins at 0", func(b *bench) {
		s := b.sandbox()
		b.wait(b.launch(s, "L1", b.cmd("echo the first one")))
		p := b.launch(s, "L2", b.cmd("echo two"))
		b.wait(p)
		if got := string(b.output(p, 0)); got != "two\n" {
			b.Errorf("read %q", got)
		}
	}},
	{"output size is told exactly", func(b *bench) {
		s := b.sandbox()
		p := b.launch(s, "L1", b.cmd("printf 12345678"))
		b.wait(p)
		sizer, ok := providers.As[providers.Backlog](p)
		if !ok {
			b.Skip("this provider tells no size")
		}
		size, err := sizer.OutputSize(b.ctx)
		b.must(err, "output size")
		if size != 8 {
			b.Errorf("size %d, want 8", size)
		}
	}},
	{"discarding keeps later offsets", func(b *bench) {
		s := b.sandbox()
		want := everyByte(300_000)
		b.put(s, "data", want)
		p := b.launch(s, "L1", b.cmd(`cat data; until [ -e go ]; do sleep 0.05; done; printf more`))
		b.readThrough(p, len(want))
		discarder, ok := providers.As[providers.Discarder](p)
		if !ok {
			b.Skip("this provider discards nothing")
		}
		const below = 200_123
		if err := discarder.Discard(b.ctx, below); providers.Is(err, providers.Invalid) {
			b.Skipf("holes are not possible here: %v", err)
		} else {
			b.must(err, "discard")
		}
		b.sh(s, "touch go")
		b.wait(p)
		want = append(want, "more"...)
		if got := b.output(p, below); !bytes.Equal(got, want[below:]) {
			b.Errorf("%d bytes from %d, first difference at %d", len(got), below, firstDifference(want[below:], got))
		}
	}},
}

// put writes a file in the workspace and checks that it is whole.
func (b *bench) put(s providers.Sandbox, name string, content []byte) {
	b.Helper()
	c := b.cmd(`cat >"$1"`, name)
	c.Stdin = bytes.NewReader(content)
	exit, err := s.Exec(b.ctx, c)
	b.must(err, "write "+name)
	if exit.Code != 0 {
		b.Fatalf("write %s: %+v", name, exit)
	}
}

// readThrough reads n bytes of a living process.
func (b *bench) readThrough(p providers.Process, n int) {
	b.Helper()
	reader, err := p.Output(b.ctx, 0)
	b.must(err, "output")
	defer reader.Close()
	_, err = io.CopyN(io.Discard, reader, int64(n))
	b.must(err, "read the output")
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
