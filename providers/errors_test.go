package providers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestClassOf(t *testing.T) {
	limited := &Error{Class: Limited, Op: "create web-1", Err: errors.New("quota"), Hint: "lower the workers", RetryAfter: time.Minute}
	for _, c := range []struct {
		err   error
		class Class
		text  string
		after time.Duration
	}{
		{Errorf(NotFound, "open a", "gone %d", 1), NotFound, "open a: gone 1", 0},
		{fmt.Errorf("outer: %w", limited), Limited, "outer: create web-1: quota; lower the workers", time.Minute},
		{&Error{Class: Invalid, Op: "exec"}, Invalid, "exec", 0},
		{errors.New("plain"), Unknown, "plain", 0},
		{context.Canceled, Unknown, "context canceled", 0},
		{errors.Join(errors.New("a"), Errorf(Conflict, "b", "c")), Conflict, "a\nb: c", 0},
	} {
		if got := ClassOf(c.err); got != c.class || c.err.Error() != c.text || RetryAfter(c.err) != c.after {
			t.Errorf("%q: class %s, after %v; want %q, %s, %v", c.err, got, RetryAfter(c.err), c.text, c.class, c.after)
		}
		if !Is(c.err, c.class) || Is(c.err, "other") {
			t.Errorf("%q: Is disagrees with ClassOf", c.err)
		}
	}
	if Is(nil, Unknown) || RetryAfter(nil) != 0 {
		t.Error("nil has a class")
	}
	if !Cancelled(Errorf(Unknown, "exec", "%w", context.DeadlineExceeded)) || Cancelled(limited) {
		t.Error("Cancelled does not look through")
	}
}
