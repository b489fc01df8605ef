package control

import (
	"mime"
	"net"
	"net/http"
)

// host is what our own client asks for. People's curl says localhost.
const host = "pool"

// suspicious returns why a request is refused before anything looks at it.
// A page in a browser can reach loopback and, through rebinding, pretend to be
// any name; it cannot leave out Origin, nor choose Host, nor send JSON without
// asking first. Nothing of ours sends Origin.
func suspicious(r *http.Request) *Error {
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return Fail(CodeForbidden, "requests from web pages are refused", "use the pool command or plain HTTP without an Origin header")
	}
	if !expectedHost(r.Host) {
		return Fail(CodeForbidden, "the host name is not one this API answers to", "use http://localhost or http://pool over the socket")
	}
	if r.Method == http.MethodPost && r.ContentLength != 0 && !isJSON(r.Header.Get("Content-Type")) {
		return Fail(CodeInvalid, "the body must be JSON", "send Content-Type: application/json")
	}
	return nil
}

func expectedHost(h string) bool {
	if name, _, err := net.SplitHostPort(h); err == nil {
		h = name
	}
	return h == host || h == "localhost"
}

func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == "application/json"
}
