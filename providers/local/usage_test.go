package local

import (
	"testing"
	"time"

	"github.com/outpostpool/pool/providers"
)

func TestUsage(t *testing.T) {
	each(t, func(t *testing.T, p *Provider) { usage(t, p) })
	t.Run("from /proc", func(t *testing.T) {
		p := open(t, t.TempDir(), "none")
		p.groups = detectGroups(groupHost{join: joins})
		defer removeAll(t, p)
		usage(t, p)
	})
}

func usage(t *testing.T, p *Provider) {
	ctx := testContext(t)
	s := create(t, p, spec(0, 1))
	run(t, s, "head -c 1000000 /dev/urandom > repos/big; ln repos/big repos/same")
	use, err := s.Usage(ctx)
	if err != nil || use.CPU != 0 || use.Memory != 0 {
		t.Fatalf("before any launch: %+v %v", use, err)
	}
	eventually(t, "the disk is measured", func() bool {
		use, err = s.Usage(ctx)
		return err == nil && use.Disk >= 0
	})
	if use.Disk < 1000000 || use.Disk > 1500000 {
		t.Errorf("%d bytes on disk", use.Disk)
	}
	w := start(t, s, "l1", "(while :; do :; done) & exec sleep 3333")
	var last providers.Usage
	eventually(t, "a child's time and memory count", func() bool {
		now, err := s.Usage(ctx)
		if err != nil || now.CPU < last.CPU || now.At.Before(last.At) {
			t.Fatalf("%+v after %+v, %v", now, last, err)
		}
		last = now
		return now.CPU > 100*time.Millisecond && now.Memory > 100<<10 && now.Memory < 1<<30
	})
	if err := w.Signal(ctx, providers.KILL); err != nil {
		t.Fatal(err)
	}
	wait(t, w)
	if now, err := s.Usage(ctx); err != nil || now.CPU < last.CPU {
		t.Errorf("it shrank to %+v, %v", now, err)
	}
}
