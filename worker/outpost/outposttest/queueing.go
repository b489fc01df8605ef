package outposttest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"time"

	"github.com/outpostpool/pool/worker/outpost"
)

// work is the worker's loop: find the outpost, then claim and serve, until ctx
// ends or something cannot be mended. It returns nil when --once or --session
// is fulfilled.
func (l *life) work(ctx context.Context) error {
	if l.habits.hang {
		l.print("hanging")
		<-ctx.Done()
		return ctx.Err()
	}
	if err := l.findOutpost(ctx); err != nil {
		return err
	}
	l.print("waiting for sessions of %s as %s", l.outpost.Name, l.flags.acceptor)
	for {
		held, err := l.claimNext(ctx)
		if err != nil {
			return err
		}
		served, err := l.serve(ctx, held)
		if err != nil {
			return err
		}
		if served && (l.flags.once || l.flags.session != "") {
			return nil
		}
		if err := l.between(ctx); err != nil {
			return err
		}
	}
}

// between is the gap before the next look at the queue: the CLI first reads
// how the session ended, seconds apart (facts outposts.md 1.7). One poll
// interval stands for it.
func (l *life) between(ctx context.Context) error {
	timer := time.NewTimer(l.flags.poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// findOutpost waits for an answer as long as the API does not give one, and
// fails at once on a platform that is not this machine's (facts 1.3).
func (l *life) findOutpost(ctx context.Context) error {
	return l.persist(ctx, func() (bool, error) {
		o, err := l.api.Find(ctx, l.flags.outpost)
		if err != nil {
			return false, err
		}
		if o.Platform != "" && o.Platform != platform() {
			return false, fmt.Errorf("outpost %s is for %s, this machine is %s", o.Name, o.Platform, platform())
		}
		l.outpost = o
		return true, nil
	})
}

// persist tries once per poll interval until it is done. An API that is away
// is waited for; what asking again does not change is returned.
func (l *life) persist(ctx context.Context, try func() (done bool, err error)) error {
	ticker := time.NewTicker(l.flags.poll)
	defer ticker.Stop()
	for {
		done, err := try()
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !outpost.IsUnreachable(err):
			return err
		case err != nil:
			l.print("trying again: %v", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// claimed is a session that this worker holds.
type claimed struct {
	outpost.Entry
	ConnectToken string
	GatewayURL   string
}

// errTaken: somebody else was faster, or the session is gone.
var errTaken = errors.New("the session is taken or gone")

// claimNext waits for a session to serve.
func (l *life) claimNext(ctx context.Context) (held claimed, err error) {
	err = l.persist(ctx, func() (bool, error) {
		wanted, err := l.wanted(ctx)
		if err != nil {
			return false, err
		}
		for _, id := range wanted {
			held, err = l.claim(ctx, id)
			if err == nil {
				return true, nil
			}
			if !errors.Is(err, errTaken) {
				return false, err
			}
		}
		if l.flags.session != "" {
			return false, fmt.Errorf("session %s cannot be claimed", l.flags.session)
		}
		return false, nil
	})
	return held, err
}

// triesPerPoll bounds how many lost races one look at the queue may cost, so
// that hundreds of workers with a long queue do not claim each other to death.
const triesPerPoll = 8

// wanted lists what to try for, in order: what this acceptor id holds from a
// former life, then the first that waits, then others.
func (l *life) wanted(ctx context.Context) ([]string, error) {
	if l.flags.session != "" {
		return []string{l.flags.session}, nil
	}
	queue, err := l.api.Queue(ctx, l.outpost.ID)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range queue.Claimed(l.flags.acceptor) {
		if !e.Terminated() && !e.Suspended() {
			ids = append(ids, e.SessionID)
		}
	}
	ids = append(ids, l.inMyOrder(queue.Claimable(platform()))...)
	return ids[:min(len(ids), triesPerPoll)], nil
}

// inMyOrder keeps the first in its place and turns the rest by the acceptor
// id: all want the first, but whoever loses it should not meet the same rivals
// at the second. It is no dice, so that a simulation replays.
func (l *life) inMyOrder(waiting []outpost.Entry) (ids []string) {
	for _, e := range waiting {
		ids = append(ids, e.SessionID)
	}
	if len(ids) < 3 {
		return ids
	}
	sum := fnv.New32a()
	sum.Write([]byte(l.flags.acceptor))
	turn := 1 + int(sum.Sum32()%uint32(len(ids)-1))
	return slices.Concat(ids[:1], ids[turn:], ids[1:turn])
}

// claim takes a session, or renews the claim on it.
func (l *life) claim(ctx context.Context, id string) (held claimed, err error) {
	raw, err := l.post(ctx, l.origin()+"/opbeta/outposts/devins/"+id+"/claim", l.flags.token, map[string]string{"acceptor_id": l.flags.acceptor})
	var refused *refusal
	if errors.As(err, &refused) && (refused.status == http.StatusConflict || refused.status == http.StatusNotFound) {
		return held, errTaken
	}
	if err != nil {
		return held, err
	}
	return decodeClaim(raw)
}

func (l *life) origin() string {
	origin, _, _ := outpost.NormalizeURL(l.flags.apiURL) // checked with the flags
	return origin
}
