//go:build !linux

package local

import "os"

func punchHole(*os.File, int64) error { return nil }
