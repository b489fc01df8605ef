package configs

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBytesAreReadWithTheirUnits(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "4096": 4096, "12B": 12,
		"64KB": 64_000, "64K": 64_000, "64Ki": 64 << 10, "64KiB": 64 << 10,
		"10MB": 10_000_000, "4Gi": 4 << 30, "4 GiB": 4 << 30, "1.5Gi": 3 << 29, "2TB": 2e12, "1Ti": 1 << 40,
		" 7MB ": 7e6, ".5KB": 500,
	} {
		var got Bytes
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "Gi", "4gi", "4Go", "-1", "-1Gi", "1e9", "inf", "NaN", "9999999Ti", "1..5Gi", "4Gi 2", "0x10", "+5"} {
		var got Bytes
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

func TestBytesReadWhatTheyWrite(t *testing.T) {
	for want, size := range map[string]Bytes{"4Gi": 4 << 30, "10MB": 10_000_000, "64KB": 64_000, "7": 7, "0": 0} {
		if size.String() != want {
			t.Errorf("%d is shown as %s, want %s", size, size, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		factor := rapid.SampledFrom([]int64{1, 1000, 1024, 1 << 20, 1e9, 1 << 40}).Draw(t, "factor")
		size := Bytes(rapid.Int64Range(0, 1<<22).Draw(t, "size") * factor)
		var back Bytes
		if err := back.UnmarshalText([]byte(size.String())); err != nil || back != size {
			t.Fatalf("%d is written %s and read %d (%v)", size, size, back, err)
		}
	})
}

func TestDurationsReadWhatTheyWrite(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"10m": 10 * time.Minute, "2h": 2 * time.Hour, "1h30m": 90 * time.Minute, "1m5s": 65 * time.Second,
		"0s": 0, "250ms": 250 * time.Millisecond, "1h0m5s": time.Hour + 5*time.Second, "10s": 10 * time.Second,
		"20h": 20 * time.Hour,
	} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%v is shown as %s, want %s", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64().Draw(t, "nanoseconds"))
		var back Duration
		if err := back.UnmarshalText([]byte(d.String())); err != nil || back != d {
			t.Fatalf("%d is written %s and read %d (%v)", d, d, back, err)
		}
	})
	for _, text := range []string{"", "5", "5 seconds", "1d", "s", "1h 30m"} {
		var got Duration
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}
