package control

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func FuzzFrame(f *testing.F) {
	for _, v := range []frame{
		{kind: frameStdin, data: []byte("in")}, {kind: frameStdinEnd}, {kind: frameStdout, data: []byte{0, 255}}, {kind: frameStderr},
		{kind: frameResize, size: Size{Rows: 24, Cols: 80}}, {kind: frameExit, code: -1}, {kind: frameExit, code: 255},
		{kind: frameCredit, credit: windowSize}, {kind: frameProblem, problem: Problem{Code: CodeConflict, Error: "no"}},
	} {
		f.Add(v.encode())
	}
	f.Add([]byte{})
	f.Add([]byte{9, 1})
	f.Add(append([]byte{byte(frameStdin)}, make([]byte, maxPayload+1)...))
	f.Fuzz(func(t *testing.T, p []byte) {
		v, err := decodeFrame(p)
		if err != nil {
			return
		}
		again, err := decodeFrame(v.encode())
		if err != nil || again.kind != v.kind || again.code != v.code || again.size != v.size || again.credit != v.credit || !bytes.Equal(again.data, v.data) || again.problem != v.problem {
			t.Errorf("%+v became %+v, %v", v, again, err)
		}
		if len(v.data) > maxPayload || v.credit > windowSize || v.credit < 0 {
			t.Errorf("beyond the limits: %d bytes, credit %d", len(v.data), v.credit)
		}
	})
}

func TestEventReader(t *testing.T) {
	text := ": hello\r\n\r\nevent: a\r\nid: 7\r\ndata: one\r\ndata: two\r\n\r\nevent: gone\n\ndata\n\rretry: 5\rdata:x\r\rid: 9\ndata: cut"
	r := newEventReader(bytes.NewReader([]byte(text)))
	for _, want := range []sentEvent{{"a", "7", []byte("one\ntwo")}, {"", "7", nil}, {"", "7", []byte("x")}} {
		got, err := r.next()
		if err != nil || got.name != want.name || got.id != want.id || !bytes.Equal(got.data, want.data) {
			t.Errorf("%q %q %q, %v; want %q %q %q", got.name, got.id, got.data, err, want.name, want.id, want.data)
		}
	}
	if _, err := r.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut event: %v", err)
	}
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("event: a\ndata: b\n\n"))
	f.Add([]byte("\r\n\r\ndata\r\r"))
	f.Fuzz(func(t *testing.T, p []byte) {
		r := newEventReader(bytes.NewReader(p))
		for range len(p) + 1 {
			if _, err := r.next(); err != nil {
				return
			}
		}
		t.Error("more events than bytes")
	})
}

func TestWindowRefusesTooMuchCredit(t *testing.T) {
	w := newWindow()
	if n, err := w.take(t.Context(), 100); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	if err := w.give(101); !errors.Is(err, errWindow) {
		t.Errorf("give(101) after take(100): %v", err)
	}
	if err := w.give(100); err != nil {
		t.Error(err)
	}
}

func TestInboxRefusesAFlood(t *testing.T) {
	in := newInbox()
	piece := frame{kind: frameStdin, data: make([]byte, maxPayload)}
	for range windowSize / maxPayload {
		if err := in.put(piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.put(piece); !errors.Is(err, errFlood) {
		t.Errorf("beyond the window: %v", err)
	}
}
