package configs

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, written as Go writes it: "5s", "1h30m",
// "250ms".
type Duration time.Duration

// D returns the duration as the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String leaves out what is zero: "10m", not "10m0s".
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText gives the form that UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

var errDuration = errors.New(`not a duration: a number with ms, s, m or h, such as "90s" or "1h30m"`)

// UnmarshalText reads "5s" or "1h30m". The error does not repeat the text.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		return errDuration
	}
	*d = Duration(parsed)
	return nil
}

// Bytes is a size. KB, MB, GB and TB are powers of 1000 and Ki, Mi, Gi and Ti
// (or KiB and so on) powers of 1024; K, M, G and T are those of 1000. A number
// without a unit counts bytes.
type Bytes int64

var byteUnits = []struct {
	name  string
	bytes int64
}{
	{"Ti", 1 << 40}, {"TB", 1e12}, {"Gi", 1 << 30}, {"GB", 1e9},
	{"Mi", 1 << 20}, {"MB", 1e6}, {"Ki", 1 << 10}, {"KB", 1e3},
}

// String uses the largest unit in which the size is a whole number.
func (b Bytes) String() string {
	for _, unit := range byteUnits {
		if b != 0 && int64(b)%unit.bytes == 0 {
			return strconv.FormatInt(int64(b)/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText gives the form that UnmarshalText reads.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

var errBytes = errors.New(`not a size: a number with KB, MB, GB, TB (1000s) or Ki, Mi, Gi, Ti (1024s), such as "4Gi" or "10MB"`)

// UnmarshalText reads "4Gi", "1.5GB" or "4096". The error does not repeat the
// text.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := splitUnit(strings.TrimSpace(string(text)))
	factor, ok := unitBytes(unit)
	if !ok {
		return errBytes
	}
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
		if whole < 0 || whole > math.MaxInt64/factor {
			return errBytes
		}
		*b = Bytes(whole * factor)
		return nil
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || value < 0 || value*float64(factor) >= math.MaxInt64 {
		return errBytes
	}
	*b = Bytes(math.Round(value * float64(factor)))
	return nil
}

// splitUnit cuts "1.5 GiB" into "1.5" and "GiB". Only digits and a point
// belong to the number, so that neither "inf" nor "1e9" is one.
func splitUnit(text string) (number, unit string) {
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		return text, ""
	}
	return text[:end], strings.TrimSpace(text[end:])
}

func unitBytes(unit string) (int64, bool) {
	if unit == "" || unit == "B" {
		return 1, true
	}
	short := strings.TrimSuffix(unit, "B")
	for _, u := range byteUnits {
		if short == u.name || short == strings.TrimSuffix(u.name, "B") {
			return u.bytes, true
		}
	}
	return 0, false
}
