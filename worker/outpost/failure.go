package outpost

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const detailLimit = 500 // characters

// failure makes the error of an answer that is no success.
func failure(k call, answer *http.Response, body []byte, token string) *APIError {
	e := &APIError{
		Op:         k.op,
		Status:     answer.StatusCode,
		Detail:     shorten(strings.ReplaceAll(printable(detailOf(body)), token, "[token]")),
		Hint:       hintFor(answer.StatusCode, k.role),
		RetryAfter: retryAfter(answer.Header.Get("Retry-After"), time.Now()),
	}
	if answer.StatusCode < 400 {
		e.Err, e.Hint = errRedirect, "check the API URL and the proxy"
		if to, err := url.Parse(answer.Header.Get("Location")); err == nil && to.Host != "" {
			e.Err = fmt.Errorf("%w, to %s", errRedirect, clean(to.Host))
		}
	}
	return e
}

// detailOf finds the words in {"detail": …}: a string, or for validation a
// list with a place and a message each (facts outposts.md 2.1). The page of a
// proxy in between has none.
func detailOf(body []byte) string {
	o := asObject(body)
	if o == nil {
		return ""
	}
	if text := o.text("detail"); text != "" {
		return text
	}
	var faults []object
	if json.Unmarshal(o["detail"], &faults) == nil {
		var parts []string
		for _, fault := range faults {
			if text := faultText(fault); text != "" {
				parts = append(parts, text)
			}
		}
		if len(parts) > 0 {
			return strings.Join(parts, "; ")
		}
	}
	return strings.TrimPrefix(string(o["detail"]), "null")
}

func faultText(fault object) string {
	message := fault.text("msg", "message")
	if place := strings.Join(fault.texts("loc"), "."); place != "" && message != "" {
		return place + ": " + message
	}
	return message
}

// clean makes foreign text fit for one line of a terminal.
func clean(text string) string { return shorten(printable(text)) }

// printable is apart from shorten so that a token can be looked for in between:
// after what could hide it is gone, before a cut leaves half of it.
func printable(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}

func shorten(text string) string {
	if runes := []rune(text); len(runes) > detailLimit {
		return string(runes[:detailLimit]) + "…"
	}
	return text
}

const retryAfterLimit = 24 * time.Hour

// retryAfter reads the header's two forms, seconds and a date.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	var wait time.Duration
	if seconds, err := strconv.ParseFloat(header, 64); err == nil {
		if math.IsNaN(seconds) || seconds < 0 {
			return 0
		}
		wait = time.Duration(min(seconds, retryAfterLimit.Seconds()) * float64(time.Second))
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), retryAfterLimit)
}
