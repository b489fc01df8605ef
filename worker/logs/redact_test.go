package logs

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const token = "cog_9aF+/z7Qw=xyz&12345"

func TestRedactorHidesEveryForm(t *testing.T) {
	r, err := NewRedactor([]string{token, "-----BEGIN-----\nAbCdEfGh12\r\n}\n"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"plain":          "x" + token + "y",
		"twice":          token + token,
		"query":          "?t=" + url.QueryEscape(token),
		"path":           "/" + url.PathEscape(token),
		"json":           `{"t":"cog_9aF+/z7Qw=xyz\u002612345"}`,
		"line of a key":  "is AbCdEfGh12 shown",
		"base64":         base64.StdEncoding.EncodeToString([]byte(token)),
		"base64 basic":   base64.StdEncoding.EncodeToString([]byte("user:" + token)),
		"base64 between": base64.URLEncoding.EncodeToString([]byte("ab" + token + "cd")),
	} {
		got := r.String(text)
		if !strings.Contains(got, redacted) {
			t.Errorf("%s: not hidden: %q", name, got)
		}
		for n := 12; n <= len(token); n++ {
			if strings.Contains(got, token[len(token)-n:]) {
				t.Errorf("%s: an end of the secret is left: %q", name, got)
			}
		}
	}
	if got := r.String("nothing here } -----BEGIN"); got != "nothing here } -----BEGIN" {
		t.Errorf("hid ordinary text: %q", got)
	}
}

func TestRedactorRefusesShortSecrets(t *testing.T) {
	r, err := NewRedactor([]string{"abc", token, ""})
	if err == nil || !strings.Contains(err.Error(), "2 secrets") {
		t.Errorf("error %v", err)
	}
	if r.String("abc "+token) != "abc "+redacted {
		t.Error("the long one is not hidden")
	}
}

// What the search finds is what a plain search finds.
func TestFindIsCompleteAndExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secrets := rapid.SliceOfN(rapid.StringMatching(`[ab]{6,12}`), 1, 4).Draw(t, "secrets")
		text := []byte(rapid.StringMatching(`[abc]{0,200}`).Draw(t, "text"))
		words := map[string]bool{}
		want := make([]bool, len(text))
		for _, s := range secrets {
			words[s] = true
			for i := range text {
				if bytes.HasPrefix(text[i:], []byte(s)) {
					for j := range len(s) {
						want[i+j] = true
					}
				}
			}
		}
		got := make([]bool, len(text))
		for _, s := range compile(words).find(text, nil) {
			for i := s.start; i < s.end; i++ {
				got[i] = true
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("secrets %q text %q:\n got %v\nwant %v", secrets, text, got, want)
		}
	})
}

// However the output is cut into chunks, no secret gets through, and what is
// no secret does, in order.
func TestSplitterHidesOverAllBorders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[xyz]{6,20}`).Draw(t, "secret")
		r, _ := NewRedactor([]string{secret})
		parts := rapid.SliceOf(rapid.OneOf(rapid.Just(secret), rapid.StringMatching(`[a-w]{0,40}`), rapid.Just("\n"))).Draw(t, "parts")
		output := strings.Join(parts, "")
		s := splitter{limit: rapid.IntRange(1, 80).Draw(t, "limit"), redactor: r}
		var got strings.Builder
		raw := 0
		emit := func(text []byte, n int) error {
			raw += n
			line, more := strings.CutSuffix(string(text), goesOn)
			got.WriteString(line)
			if !more && (raw > len(output) || output[raw-1] == '\n') {
				got.WriteByte('\n')
			}
			return nil
		}
		for rest := []byte(output); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
			if err := s.feed(rest[:n], emit); err != nil {
				t.Fatal(err)
			}
			if rest = rest[n:]; rapid.Bool().Draw(t, "idle") {
				if err := s.flush(false, emit); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.flush(true, emit); err != nil {
			t.Fatal(err)
		}
		if raw != len(output) {
			t.Fatalf("counted %d of %d bytes", raw, len(output))
		}
		if strings.Contains(got.String(), secret) {
			t.Fatalf("secret in %q", got.String())
		}
		left := strings.ReplaceAll(got.String(), redacted, "")
		if want := strings.ReplaceAll(output, secret, ""); left != want {
			t.Fatalf("got %q\nwant %q", left, want)
		}
	})
}

func BenchmarkRedactorWithoutHit(b *testing.B) {
	r, _ := NewRedactor([]string{"cog_0123456789abcdef0123456789abcdef", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "hunter22", "AKIAIOSFODNN7EXAMPLE"})
	text := sampleOutput(256 << 10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if len(r.find(text, nil)) > 0 {
			b.Fatal("hit")
		}
	}
}

func sampleOutput(size int) []byte {
	var out bytes.Buffer
	for i := 0; out.Len() < size; i++ {
		fmt.Fprintf(&out, "\x1b[32minfo\x1b[0m step %d: compiling src/module_%d.rs with %d warnings, path=/workspace/repos/app\n", i, i%97, i%7)
	}
	return out.Bytes()[:size]
}
