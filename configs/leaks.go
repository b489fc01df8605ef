package configs

import (
	"math"
	"net/url"
	"regexp"
	"strings"
)

// tokenShapes are the beginnings of tokens that people have at hand where
// they write a pool.toml. Each is long enough not to match a placeholder such
// as cog_… in a comment.
var tokenShapes = []struct {
	kind    string
	pattern *regexp.Regexp
}{
	{"a Devin token", shape(`cog_[A-Za-z0-9_-]{8,}|apk_(?:user_)?[A-Za-z0-9_=-]{16,}`)},
	{"a GitHub token", shape(`gh[pousr]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}`)},
	{"a GitLab token", shape(`gl(?:pat|rt|dt|cbt|ptt|oas)-[A-Za-z0-9_-]{8,}`)},
	{"an API key", shape(`sk-[A-Za-z0-9_-]{16,}|sk_(?:live|test)_[A-Za-z0-9]{8,}|AIza[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{16,}|(?:dtn|e2b|tl)_[A-Za-z0-9]{16,}`)},
	{"a package registry's token", shape(`npm_[A-Za-z0-9]{16,}|pypi-[A-Za-z0-9_-]{16,}`)},
	{"a Slack token", shape(`xox[abeoprs]-[A-Za-z0-9-]{8,}`)},
	{"an AWS key", shape(`(?:AKIA|ASIA)[A-Z0-9]{16}`)},
	{"a signed token", shape(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)},
	{"a private key", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)},
}

func shape(alternatives string) *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[^A-Za-z0-9_-])(?:` + alternatives + `)`)
}

// tokenKind says what a text with a known kind of token in it looks like, else
// it is empty.
func tokenKind(text string) string {
	for _, s := range tokenShapes {
		if s.pattern.MatchString(text) {
			return s.kind
		}
	}
	return ""
}

// tokenStart finds what could be a token or a part of one, down to a few
// characters, for texts that are shown: there a false alarm costs nothing.
var tokenStart = regexp.MustCompile(`(?:cog_|apk_|gh[pousr]_|github_pat_|gl[a-z]{2,4}-|sk[-_]|AIza|hf_|dtn_|e2b_|npm_|pypi-|xox[a-z]-|AKIA|ASIA|eyJ)[A-Za-z0-9_=.-]*`)

// hideTokens removes what looks like a token from a text for people.
func hideTokens(text string) string {
	return tokenStart.ReplaceAllStringFunc(text, func(found string) string {
		if len(found) < 10 {
			return found
		}
		return "(hidden)"
	})
}

// secretKind says why a value under a key looks like a secret; empty when it
// does not.
func secretKind(key, value string) string {
	if kind := tokenKind(value); kind != "" {
		return kind
	}
	if hasURLPassword(value) {
		return "a password in a URL"
	}
	switch namedSecret(key) {
	case "password":
		if len(value) >= 4 && !isPathOrWord(value) {
			return "a password"
		}
	case "token":
		if len(value) >= 12 && !isPathOrWord(value) && entropy(value) >= 3 {
			return "a secret"
		}
	}
	return ""
}

// namedSecret tells from the last words of a key what its value must be. A
// key that goes on, like token_file or PASSWORD_STORE_DIR, is none.
func namedSecret(key string) string {
	key = strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	for _, end := range []string{"password", "passwd", "passphrase"} {
		if strings.HasSuffix(key, end) {
			return "password"
		}
	}
	for _, end := range []string{"token", "secret", "api_key", "apikey", "access_key", "private_key", "secret_key", "credential", "credentials"} {
		if key == end || strings.HasSuffix(key, "_"+end) || (end == "token" && strings.HasSuffix(key, end)) {
			return "token"
		}
	}
	return ""
}

// isPathOrWord accepts what such keys may also hold: a path, a reference to
// a variable, a sentence, a yes or no.
func isPathOrWord(value string) bool {
	switch strings.ToLower(value) {
	case "true", "false", "none", "null", "never", "always", "auto":
		return true
	}
	return strings.HasPrefix(value, "/") || strings.HasPrefix(value, "./") || strings.HasPrefix(value, "../") ||
		strings.HasPrefix(value, "~/") || strings.HasPrefix(value, "$") || strings.Contains(value, " ") ||
		strings.Contains(value, "://")
}

func hasURLPassword(value string) bool {
	for word := range strings.FieldsSeq(value) {
		if at := strings.Index(word, "://"); at < 0 || !strings.Contains(word[at:], "@") {
			continue
		}
		if parsed, err := url.Parse(word); err == nil {
			if password, set := parsed.User.Password(); set && password != "" && !strings.HasPrefix(password, "$") {
				return true
			}
		} else if urlPassword.MatchString(word) {
			return true
		}
	}
	return false
}

var urlPassword = regexp.MustCompile(`://[^/@:]*:[^/@$]+@`)

// entropy is in bits per character: 0 for "aaaa", about 4 for random hex.
func entropy(text string) float64 {
	counts := map[rune]int{}
	total := 0
	for _, r := range text {
		counts[r]++
		total++
	}
	bits := 0.0
	for _, n := range counts {
		p := float64(n) / float64(total)
		bits -= p * math.Log2(p)
	}
	return bits
}
