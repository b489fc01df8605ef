//go:build !linux

package local

import "os"

// watches has no events to offer here; followers look for themselves.
type watches struct{}

func (*watches) watch(*os.File) (<-chan struct{}, func()) { return nil, func() {} }
