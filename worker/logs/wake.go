package logs

import "sync"

// wakes lets readers in this program hear of new lines at once. Readers
// elsewhere, and after a missed call, look every pollEvery.
var wakes = struct {
	sync.Mutex
	waiting map[string]map[chan struct{}]bool
}{waiting: map[string]map[chan struct{}]bool{}}

// listen returns a channel that gets a value after each write to the log at
// path, and a function to call when done.
func listen(path string) (<-chan struct{}, func()) {
	heard := make(chan struct{}, 1)
	wakes.Lock()
	defer wakes.Unlock()
	if wakes.waiting[path] == nil {
		wakes.waiting[path] = map[chan struct{}]bool{}
	}
	wakes.waiting[path][heard] = true
	return heard, func() {
		wakes.Lock()
		defer wakes.Unlock()
		delete(wakes.waiting[path], heard)
		if len(wakes.waiting[path]) == 0 {
			delete(wakes.waiting, path)
		}
	}
}

// wake never waits: a reader that has not taken the last value gets no second.
func wake(path string) {
	wakes.Lock()
	defer wakes.Unlock()
	for heard := range wakes.waiting[path] {
		select {
		case heard <- struct{}{}:
		default:
		}
	}
}
