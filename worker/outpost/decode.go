package outpost

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// The API is young and its words have changed before (facts outposts.md 1.3).
// So decoding never fails over one odd field: it reads as empty or zero. Only
// an answer without its envelope is an error, because an empty list that is
// none would say "idle".

// object is a JSON object, or nil for anything else.
type object map[string]json.RawMessage

func asObject(raw json.RawMessage) object {
	var o object
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return o
}

func (o object) object(name string) object { return asObject(o[name]) }

// text returns the first of the named fields that holds a word or a number.
func (o object) text(names ...string) string {
	for _, name := range names {
		if s := asText(o[name]); s != "" {
			return s
		}
	}
	return ""
}

// word is text for fields that hold one of a few known words.
func (o object) word(name string) string {
	return strings.ToLower(strings.TrimSpace(o.text(name)))
}

func asText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}

func (o object) texts(name string) []string {
	var items []json.RawMessage
	if json.Unmarshal(o[name], &items) != nil {
		return nil
	}
	var out []string
	for _, item := range items {
		if s := asText(item); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// count returns a number that is not negative, or -1.
func (o object) count(name string) int {
	n, err := strconv.ParseFloat(asText(o[name]), 64)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return -1
	}
	return int(n)
}

func (o object) truth(name string) bool {
	b, err := strconv.ParseBool(asFlag(o[name]))
	return err == nil && b
}

func asFlag(raw json.RawMessage) string {
	if s := asText(raw); s != "" {
		return s
	}
	return string(bytes.TrimSpace(raw))
}

func (o object) time(name string) time.Time { return parseTime(asText(o[name])) }

// Seconds of the year 5138 and milliseconds of March 1973 meet here; times of
// this API are far from both.
const millisecondsFrom = 1e11

var timeForms = []string{
	time.RFC3339Nano,
	"2006-01-02T15:04:05.999999999", // no zone: UTC, as Python's isoformat leaves it
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999",
}

// parseTime reads Unix seconds, Unix milliseconds and ISO text; what it cannot
// read is the zero time.
func parseTime(text string) time.Time {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return fromUnix(n)
	}
	for _, form := range timeForms {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

func fromUnix(n float64) time.Time {
	if math.IsNaN(n) || n <= 0 || n > 1e15 {
		return time.Time{}
	}
	if n >= millisecondsFrom {
		return time.UnixMilli(int64(n)).UTC()
	}
	seconds, fraction := math.Modf(n)
	return time.Unix(int64(seconds), int64(math.Round(fraction*1e6))*1e3).UTC()
}

// page is one answer of a list. Queue and outposts differ in the name of the
// cursor (facts outposts.md 2.3, 2.5).
type page struct {
	items  []json.RawMessage
	cursor string
	more   bool
}

func decodePage(body []byte) (page, error) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return page{}, errNotJSON
	}
	var items []json.RawMessage
	raw, there := o["items"]
	if !there || json.Unmarshal(raw, &items) != nil || items == nil {
		return page{}, errNoItems
	}
	return page{items: items, cursor: o.text("cursor", "end_cursor"), more: o.truth("has_next_page")}, nil
}
