package outpost

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// DefaultURL is where Devin Cloud answers (facts outposts.md 1.2).
const DefaultURL = "https://api.devin.ai"

var outpostID = regexp.MustCompile(`^outpost_env-[0-9a-fA-F]{32}$`)

// IsOutpostID reports whether s has the form of an outpost's id,
// outpost_env- and 32 hex digits (facts outposts.md 1.2). Anything else is
// taken for a name.
func IsOutpostID(s string) bool { return outpostID.MatchString(s) }

// NormalizeURL turns what people write into the origin that the CLI and this
// client want: scheme, host and port, nothing after them (facts outposts.md
// 1.2). Empty means DefaultURL. The note, empty when nothing was changed, says
// in one line what was dropped or is risky; the error never repeats a password.
func NormalizeURL(raw string) (origin, note string, err error) {
	text := strings.TrimSpace(raw)
	if text == "" {
		return DefaultURL, "", nil
	}
	var notes []string
	if !strings.Contains(text, "://") {
		text = "https://" + text
		notes = append(notes, "took https:// for the API URL, which names no scheme")
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", "", errors.New("the API URL cannot be read; write it as " + DefaultURL)
	}
	switch {
	case u.User != nil:
		return "", "", errors.New("the API URL holds a user name or password; the token goes into the environment, never into the URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return "", "", fmt.Errorf("the API URL has the scheme %q; only https and http are spoken", u.Scheme)
	case u.Hostname() == "":
		return "", "", errors.New("the API URL names no host; write it as " + DefaultURL)
	}
	if rest := strings.TrimRight(u.Path, "/"); rest != "" {
		notes = append(notes, fmt.Sprintf("dropped %q from the API URL: the CLI wants the origin alone", rest))
	}
	if u.RawQuery != "" || u.Fragment != "" {
		notes = append(notes, "dropped the query from the API URL")
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		notes = append(notes, "the API URL is http: the token travels unencrypted")
	}
	return u.Scheme + "://" + strings.ToLower(u.Host), strings.Join(notes, "; "), nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
