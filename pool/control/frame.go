package control

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// The protocol of an exec, inside a WebSocket. The client's first message is
// text: the ExecRequest as JSON. Every later message, both ways, is binary: one
// byte that says what it is, then its payload.
//
// Either side may send at most windowSize bytes of a stream that the other has
// not yet given back as credit. So each side reads its connection at all times,
// keeps little, answers pings while its own reader is slow, and sees at once
// when the other is gone.
type frameKind byte

const (
	frameStdin    frameKind = 1 // client: bytes
	frameStdinEnd frameKind = 2 // client: nothing follows
	frameStdout   frameKind = 3 // server: bytes
	frameStderr   frameKind = 4 // server: bytes
	frameResize   frameKind = 5 // client: rows, columns; two bytes each
	frameExit     frameKind = 6 // server: exit code, four bytes signed. The last frame
	frameProblem  frameKind = 7 // server: a Problem as JSON, in place of frameExit
	frameCredit   frameKind = 8 // both: four bytes, how much was consumed
)

const (
	windowSize = 1 << 20  // bytes under way in one direction
	maxPayload = 64 << 10 // bytes in one frame
)

// frame is one decoded message. Only the fields of its kind are set.
type frame struct {
	kind    frameKind
	data    []byte // stdin, stdout, stderr
	size    Size
	code    int
	credit  int
	problem Problem
}

// encode is the inverse of decodeFrame. Numbers are big endian.
func (f frame) encode() []byte {
	out := []byte{byte(f.kind)}
	switch f.kind {
	case frameStdin, frameStdout, frameStderr:
		out = append(out, f.data...)
	case frameResize:
		out = binary.BigEndian.AppendUint16(out, f.size.Rows)
		out = binary.BigEndian.AppendUint16(out, f.size.Cols)
	case frameExit:
		out = binary.BigEndian.AppendUint32(out, uint32(int32(f.code)))
	case frameCredit:
		out = binary.BigEndian.AppendUint32(out, uint32(f.credit))
	case frameProblem:
		text, _ := json.Marshal(f.problem) // strings only: cannot fail
		out = append(out, text...)
	}
	return out
}

// decodeFrame checks a message of the other side. data points into p.
func decodeFrame(p []byte) (frame, error) {
	if len(p) == 0 {
		return frame{}, fmt.Errorf("exec protocol: an empty message")
	}
	f, body := frame{kind: frameKind(p[0])}, p[1:]
	switch f.kind {
	case frameStdin, frameStdout, frameStderr:
		if len(body) > maxPayload {
			return frame{}, fmt.Errorf("exec protocol: %d bytes in one frame, at most %d are allowed", len(body), maxPayload)
		}
		f.data = body
		return f, nil
	case frameProblem:
		if err := json.Unmarshal(body, &f.problem); err != nil {
			return frame{}, fmt.Errorf("exec protocol: a problem that cannot be read: %w", err)
		}
		return f, nil
	case frameStdinEnd:
		return f, lengthIs(f.kind, body, 0)
	case frameResize:
		if err := lengthIs(f.kind, body, 4); err != nil {
			return frame{}, err
		}
		f.size = Size{Rows: binary.BigEndian.Uint16(body), Cols: binary.BigEndian.Uint16(body[2:])}
		return f, nil
	case frameExit:
		if err := lengthIs(f.kind, body, 4); err != nil {
			return frame{}, err
		}
		f.code = int(int32(binary.BigEndian.Uint32(body)))
		return f, nil
	case frameCredit:
		if err := lengthIs(f.kind, body, 4); err != nil {
			return frame{}, err
		}
		n := binary.BigEndian.Uint32(body)
		if n > windowSize {
			return frame{}, fmt.Errorf("exec protocol: credit for %d bytes, at most %d can be under way", n, windowSize)
		}
		f.credit = int(n)
		return f, nil
	}
	return frame{}, fmt.Errorf("exec protocol: unknown kind of frame %d", f.kind)
}

func lengthIs(k frameKind, body []byte, want int) error {
	if len(body) != want {
		return fmt.Errorf("exec protocol: frame of kind %d has %d bytes instead of %d", k, len(body), want)
	}
	return nil
}
