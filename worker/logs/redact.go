package logs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// MinSecret is the length in bytes below which a secret is refused: hiding it
// would blot out ordinary text and give it away by its gaps.
const MinSecret = 6

const redacted = "[redacted]"

// Redactor hides secrets. It is immutable and safe for concurrent use; nil
// hides nothing.
type Redactor struct {
	words        [][]byte
	short, long  int // lengths of the shortest and the longest word
	shift        []uint8
	ending       map[uint16][]int // words by the two bytes that end their first short bytes
	needsNothing bool
}

// span is a stretch of text, end excluded.
type span struct{ start, end int }

// NewRedactor hides secrets, each also line by line, and in the forms in
// which it travels: base64 at any alignment, percent-encoded, in JSON. An
// error counts the secrets refused for being shorter than MinSecret; the
// redactor hides all others nevertheless.
func NewRedactor(secrets []string) (*Redactor, error) {
	refused := 0
	words := map[string]bool{}
	for _, secret := range secrets {
		if len(strings.TrimSpace(secret)) < MinSecret {
			refused++
			continue
		}
		all := base64Forms(secret)
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) >= MinSecret {
				all = append(all, forms(line)...)
			}
		}
		for _, form := range all {
			if len(form) >= MinSecret {
				words[form] = true
			}
		}
	}
	r := compile(words)
	if refused > 0 {
		return r, fmt.Errorf("%d secrets are shorter than %d bytes and cannot be hidden in logs; use longer ones", refused, MinSecret)
	}
	return r, nil
}

func forms(secret string) []string {
	all := append(base64Forms(secret), secret, url.QueryEscape(secret), url.PathEscape(secret))
	if quoted, err := json.Marshal(secret); err == nil {
		all = append(all, string(quoted[1:len(quoted)-1]))
	}
	return all
}

func base64Forms(secret string) (all []string) {
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			all = append(all, base64Core(encoding, secret, shift))
		}
	}
	return all
}

// base64Core is the part of the encoding that depends on the secret alone
// when shift bytes of other text (modulo 3) stand before it.
func base64Core(encoding *base64.Encoding, secret string, shift int) string {
	whole := encoding.EncodeToString(append(make([]byte, shift), secret...))
	first := (shift*8 + 5) / 6
	last := (shift + len(secret)) * 8 / 6
	return whole[first:last]
}

// compile prepares a search that looks at two bytes and, where no word can end
// there, skips as far as the shortest word allows (Wu and Manber, 1994).
func compile(words map[string]bool) *Redactor {
	r := &Redactor{needsNothing: len(words) == 0, ending: map[uint16][]int{}}
	for word := range words {
		r.words = append(r.words, []byte(word))
		r.long = max(r.long, len(word))
	}
	if r.needsNothing {
		return r
	}
	// Longest first, so that the widest match at a place is found first.
	slices.SortFunc(r.words, func(a, b []byte) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return bytes.Compare(a, b)
	})
	r.short = min(len(r.words[len(r.words)-1]), 255)
	r.shift = bytes.Repeat([]byte{uint8(r.short - 1)}, 1<<16)
	for i, word := range r.words {
		for j := 1; j < r.short; j++ {
			pair := uint16(word[j-1])<<8 | uint16(word[j])
			r.shift[pair] = min(r.shift[pair], uint8(r.short-1-j))
			if j == r.short-1 {
				r.ending[pair] = append(r.ending[pair], i)
			}
		}
	}
	return r
}

// find returns where secrets stand in b, in order, touching ones joined.
func (r *Redactor) find(b []byte, found []span) []span {
	if r == nil || r.needsNothing {
		return found
	}
	shift := (*[1 << 16]uint8)(r.shift)
	for i := r.short - 1; i < len(b); {
		pair := uint16(b[i-1])<<8 | uint16(b[i])
		if skip := shift[pair]; skip > 0 {
			i += int(skip)
			continue
		}
		start := i - r.short + 1
		for _, word := range r.ending[pair] {
			if bytes.HasPrefix(b[start:], r.words[word]) {
				found = join(found, span{start, start + len(r.words[word])})
				break
			}
		}
		i++
	}
	return found
}

func join(found []span, next span) []span {
	if n := len(found); n > 0 && next.start <= found[n-1].end {
		found[n-1].end = max(found[n-1].end, next.end)
		return found
	}
	return append(found, next)
}

// held returns how many bytes at the end of b may be the beginning of a secret.
func (r *Redactor) held(b []byte) int {
	if r == nil {
		return 0
	}
	for n := min(len(b), r.long-1); n > 0; n-- {
		end := b[len(b)-n:]
		for _, word := range r.words {
			if len(word) > n && bytes.HasPrefix(word, end) {
				return n
			}
		}
	}
	return 0
}

// String returns s with every secret replaced.
func (r *Redactor) String(s string) string {
	spans := r.find([]byte(s), nil)
	if len(spans) == 0 {
		return s
	}
	return string(appendRedacted(nil, []byte(s), 0, spans))
}

// appendRedacted appends text, which begins at base in the numbering of spans,
// without what lies in spans.
func appendRedacted(out, text []byte, base int, spans []span) []byte {
	at := 0
	for _, s := range spans {
		start, end := max(s.start-base, at), min(s.end-base, len(text))
		if start >= end {
			continue
		}
		out = append(append(out, text[at:start]...), redacted...)
		at = end
	}
	return append(out, text[at:]...)
}
