package logs

import (
	"io"
	"time"
)

// pump reads ahead by one chunk, so that reading waits for writing and never
// the other way round.
type pump struct {
	chunks chan []byte
	free   chan []byte
	quit   chan struct{}
	err    error // why chunks was closed
}

func startPump(r io.Reader) *pump {
	p := &pump{chunks: make(chan []byte), free: make(chan []byte, 2), quit: make(chan struct{})}
	p.free <- make([]byte, chunkSize)
	p.free <- make([]byte, chunkSize)
	go p.run(r)
	return p
}

func (p *pump) run(r io.Reader) {
	defer close(p.chunks)
	for {
		var room []byte
		select {
		case room = <-p.free:
		case <-p.quit:
			return
		}
		n, err := r.Read(room)
		if n > 0 {
			select {
			case p.chunks <- room[:n]:
			case <-p.quit:
				return
			}
		} else {
			p.free <- room
		}
		if err != nil {
			p.err = err
			return
		}
	}
}

// done gives a chunk back.
func (p *pump) done(chunk []byte) { p.free <- chunk[:chunkSize] }

// stop waits for the end of the reading, which the caller has cut off.
func (p *pump) stop() {
	close(p.quit)
	for range p.chunks { // until run closes it
	}
}

// timer is one that may be armed again without a look at whether it has fired.
type timer struct {
	*time.Timer
	armed bool
}

func stoppedTimer() *timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &timer{Timer: t}
}

func (t *timer) arm(d time.Duration) {
	t.Reset(d)
	t.armed = true
}
