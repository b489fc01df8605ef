package local

import (
	"sync"
	"time"
)

// tableCache shares one reading of the process table among those who only
// count: a hundred sandboxes asked for their use read /proc once.
type tableCache struct {
	mu   sync.Mutex
	t    table
	read time.Time
}

// tableAge is how old a reading may be for counting. Signals read afresh.
const tableAge = 500 * time.Millisecond

func (c *tableCache) get() (table, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.t != nil && time.Since(c.read) < tableAge {
		return c.t, c.read, nil
	}
	read := time.Now()
	t, err := readTable()
	if err != nil {
		return nil, time.Time{}, err
	}
	c.t, c.read = t, read
	return t, read, nil
}
