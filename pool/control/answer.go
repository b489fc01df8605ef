package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// reply sends v as JSON with status 200.
func (s *server) reply(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.fail(w, fmt.Errorf("encode the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
}

// fail sends err as a Problem. It does nothing to a body already begun: the
// first WriteHeader wins, and the client sees a cut stream.
func (s *server) fail(w http.ResponseWriter, err error) {
	p := problemOf(err)
	if p.Code == CodeInternal {
		s.options.Log.Warn("control: a request failed", "error", p.Error)
	}
	body, _ := json.Marshal(p) // strings only: cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

// problemOf keeps code and hint of an *Error; any other error is internal.
func problemOf(err error) Problem {
	p := Problem{Code: CodeInternal, Error: err.Error()}
	var typed *Error
	if errors.As(err, &typed) {
		p = typed.Problem
	} else if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		p = Problem{Code: CodeUnavailable, Error: "the request was given up before its end: " + err.Error()}
	}
	if p.Status == 0 {
		p.Status = statusOf[p.Code]
	}
	if p.Status == 0 {
		p.Code, p.Status = CodeInternal, http.StatusInternalServerError
	}
	return p
}

func wrongMethod(allowed []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e := Fail(CodeInvalid, r.Method+" is not possible on "+r.URL.Path, "use "+strings.Join(allowed, " or "))
		e.Status = http.StatusMethodNotAllowed
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		(&server{options: Options{}.withDefaults()}).fail(w, e)
	}
}

// decode reads one JSON object and nothing after it. Unknown fields are
// refused: a misspelt "now" must not become a patient drain. An absent body
// is the zero value where optional.
func decode[T any](r *http.Request, optional bool) (T, error) {
	var v T
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	if errors.Is(err, io.EOF) && optional {
		return v, nil
	}
	if err == nil {
		err = onlyOne(d)
	}
	if err == nil {
		return v, nil
	}
	var zero T
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		e := Fail(CodeInvalid, fmt.Sprintf("the body is longer than %d bytes", tooLong.Limit), "")
		e.Status = http.StatusRequestEntityTooLarge
		return zero, e
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it is empty")
	}
	return zero, Fail(CodeInvalid, "the body is not what this path takes: "+err.Error(), "/v1/openapi.yaml describes it")
}

func onlyOne(d *json.Decoder) error {
	_, err := d.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		return errors.New("something follows the object")
	}
	return err
}
