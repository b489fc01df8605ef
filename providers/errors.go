package providers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Class decides what the pool does about an error.
type Class string

const (
	NotFound     Class = "not found"    // it surely does not exist
	Unauthorized Class = "unauthorized" // a person or a better credential is needed
	Invalid      Class = "invalid"      // asking again the same way fails again
	Conflict     Class = "conflict"     // something else holds what was asked for
	Limited      Class = "limited"      // quota or rate; RetryAfter may say when
	BadSnapshot  Class = "bad snapshot" // the snapshot cannot be restored
	Transient    Class = "transient"    // it did not happen; trying again may help
	Unknown      Class = "unknown"      // it may have happened
)

// Error is an error with its class. Its text is for people: what was
// attempted, why it failed, and what to do next where that is known.
type Error struct {
	Class      Class
	Op         string        // what was attempted, as in "create web-3"
	Err        error         // why; never holds a secret
	Hint       string        // what to do next; may be empty
	RetryAfter time.Duration // for Limited; 0 when not told
}

func (e *Error) Error() string {
	text := e.Op
	if e.Err != nil {
		text = fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error of a class. The text says op first, as in
// Errorf(NotFound, "open web-3", "no such directory").
func Errorf(class Class, op, format string, args ...any) *Error {
	return &Error{Class: class, Op: op, Err: fmt.Errorf(format, args...)}
}

// ClassOf returns the class of err. A cancelled or expired context, and any
// error without a class, is Unknown: it may have happened.
func ClassOf(err error) Class {
	var classed *Error
	if errors.As(err, &classed) {
		return classed.Class
	}
	return Unknown
}

// Is reports whether err has the class. It is false for nil.
func Is(err error, class Class) bool {
	return err != nil && ClassOf(err) == class
}

// RetryAfter returns the delay a Limited error asks for, else 0.
func RetryAfter(err error) time.Duration {
	var classed *Error
	if errors.As(err, &classed) {
		return classed.RetryAfter
	}
	return 0
}

// Cancelled reports whether err comes from a context that ended.
func Cancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
