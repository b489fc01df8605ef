package control

import "net/http"

// Error is an error with a code that the client acts on and a hint for people.
type Error struct{ Problem }

func (e *Error) Error() string { return e.String() }

// Codes of a Problem, with their HTTP status.
const (
	CodeNotFound     = "not_found"
	CodeInvalid      = "invalid"
	CodeConflict     = "conflict"
	CodeUnavailable  = "unavailable"
	CodeUnauthorized = "unauthorized"
	CodeForbidden    = "forbidden"
	CodeInternal     = "internal"
)

var statusOf = map[string]int{
	CodeNotFound:     http.StatusNotFound,
	CodeInvalid:      http.StatusBadRequest,
	CodeConflict:     http.StatusConflict,
	CodeUnavailable:  http.StatusServiceUnavailable,
	CodeUnauthorized: http.StatusUnauthorized,
	CodeForbidden:    http.StatusForbidden,
	CodeInternal:     http.StatusInternalServerError,
}

// Fail makes an Error.
func Fail(code, text, hint string) *Error {
	return &Error{Problem{Code: code, Error: text, Hint: hint}}
}
