package outposttest

import (
	"context"
	"fmt"
	"time"
)

// Feed is a stream of sessions for a demo: one every Every, Sessions in all,
// each served for a time between For[0] and For[1] that the seed's dice choose.
type Feed struct {
	Sessions int
	Every    time.Duration
	For      [2]time.Duration
	Outpost  string // id; empty: the first
}

// Feed adds the sessions, the first at once. It returns when all are in the
// queue or ctx ends; the error is only about the feed itself.
func (s *Server) Feed(ctx context.Context, f Feed) error {
	ticker := time.NewTicker(max(f.Every, time.Millisecond))
	defer ticker.Stop()
	for n := range f.Sessions {
		if n > 0 {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
		}
		if _, err := s.AddSession(NewSession{OutpostID: f.Outpost, Script: Script{
			For:   s.between(f.For[0], f.For[1]),
			Lines: []string{fmt.Sprintf("task %d of the demo", n+1)},
		}}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return low + time.Duration(s.dice.Int64N(int64(high-low)+1))
}
