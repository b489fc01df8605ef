package pool

import (
	"context"
	"sync"
	"time"

	"github.com/outpostpool/pool/pool/control"
	"github.com/outpostpool/pool/providers"
)

// sampler reads what sandboxes use, only while somebody looks.
type sampler struct {
	provider providers.Provider

	mu   sync.Mutex
	last map[string]sample // by sandbox id
}

// sample is one reading and the rate since the one before.
type sample struct {
	providers.Usage
	cores float64 // -1: not known
}

const (
	sampleKeeps    = 2 * time.Second        // a reading younger than this is shown again
	samplePatience = 500 * time.Millisecond // the display does not wait longer
)

func newSampler(p providers.Provider) *sampler {
	return &sampler{provider: p, last: map[string]sample{}}
}

// fill completes the workers of a view with what they use; what is not known
// in time stays -1.
func (u *sampler) fill(ctx context.Context, v *control.Pool) {
	ctx, cancel := context.WithTimeout(ctx, samplePatience)
	defer cancel()
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range v.Workers {
		w := &v.Workers[i]
		if w.Sandbox == "" || w.PID == 0 {
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if s, ok := u.sample(ctx, w.Sandbox, w.Started, v.Now); ok {
				w.CPU, w.Memory, w.Disk = s.cores, s.Memory, s.Disk
			}
		})
	}
	all.Wait()
	u.forget(v)
}

func (u *sampler) sample(ctx context.Context, id string, started, now time.Time) (sample, bool) {
	u.mu.Lock()
	before, have := u.last[id]
	u.mu.Unlock()
	if have && now.Sub(before.At) < sampleKeeps {
		return before, true
	}
	sandbox, err := u.provider.Open(ctx, id)
	if err != nil {
		return before, have
	}
	sizer, ok := providers.As[providers.Sizer](sandbox)
	if !ok {
		return before, have
	}
	use, err := sizer.Usage(ctx)
	if err != nil {
		return before, have
	}
	next := sample{Usage: use, cores: -1}
	if use.CPU >= 0 {
		since, used := started, use.CPU
		if have && before.At.After(started) && use.CPU >= before.CPU {
			since, used = before.At, use.CPU-before.CPU
		}
		if span := use.At.Sub(since); span > 0 {
			next.cores = used.Seconds() / span.Seconds()
		}
	}
	u.mu.Lock()
	u.last[id] = next
	u.mu.Unlock()
	return next, true
}

// forget drops readings of sandboxes that are gone.
func (u *sampler) forget(v *control.Pool) {
	here := map[string]bool{}
	for _, w := range v.Workers {
		here[w.Sandbox] = true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range u.last {
		if !here[id] {
			delete(u.last, id)
		}
	}
}
