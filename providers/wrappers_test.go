package providers

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAsWalksWrappers(t *testing.T) {
	p := Log(Limit(Retry(&fake{}, RetryOptions{}), LimitOptions{Calls: 1}), slog.New(slog.DiscardHandler))
	s, q := handles(p)
	if _, ok := s.(Sizer); ok {
		t.Fatal("the wrapper itself has the ability: this test tests nothing")
	}
	if sizer, ok := As[Sizer](s); !ok {
		t.Error("the sandbox lost Sizer")
	} else if u, _ := sizer.Usage(t.Context()); u.CPU != time.Second {
		t.Errorf("usage %+v", u)
	}
	if _, ok := As[Backlog](q); !ok {
		t.Error("the process lost Backlog")
	}
	if _, ok := As[*fake](p); !ok {
		t.Error("the provider is not found")
	}
	if _, ok := As[Snapshotter](s); ok {
		t.Error("an ability from nowhere")
	}
	if _, ok := As[Sizer](nil); ok {
		t.Error("nil has an ability")
	}
}

func TestWrappersPassResultsOn(t *testing.T) {
	s, q := handles(Log(Limit(Retry(&fake{}, RetryOptions{}), LimitOptions{}), slog.New(slog.DiscardHandler)))
	if exit, err := s.Exec(t.Context(), Cmd{}); err != nil || exit.Code != 7 {
		t.Errorf("%+v, %v", exit, err)
	}
	if exit, err := q.Wait(t.Context()); err != nil || exit.Code != 3 {
		t.Errorf("%+v, %v", exit, err)
	}
	if info, err := q.Info(t.Context()); err != nil || info.PID != 5 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestLogSaysWhatAndNoSecret(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f := &fake{}
	s, _ := handles(Log(f, log))
	f.errs = []error{errOf(Limited)}
	_, _ = s.Exec(t.Context(), Cmd{Args: []string{"run"}, Env: map[string]string{"TOKEN": "cog_hush"}, Stdin: strings.NewReader("cog_hush")})
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines: %s", len(lines), &text)
	}
	for _, want := range []string{"level=DEBUG", "op=exec", "name=web-0", "duration=", "class=limited", `error="do: because"`} {
		if !strings.Contains(lines[2], want) {
			t.Errorf("no %s in %s", want, lines[2])
		}
	}
	if strings.Contains(text.String(), "cog_hush") || strings.Contains(text.String(), "TOKEN") {
		t.Errorf("a secret: %s", &text)
	}
}

func TestLimitBoundsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{hold: make(chan struct{})}
		p := Limit(f, LimitOptions{Calls: 3, Creates: 2})
		for range 6 {
			go func() { _, _ = p.Create(t.Context(), Spec{Name: "x"}) }()
		}
		synctest.Wait()
		if f.most != 2 {
			t.Errorf("%d creates at once, want 2", f.most)
		}
		for range 6 {
			go func() { _, _ = p.List(t.Context(), "x") }()
		}
		synctest.Wait()
		if f.most != 3 {
			t.Errorf("%d calls at once, want 3", f.most)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := p.Open(ctx, "x"); !Is(err, Transient) {
			t.Errorf("a call that never had its turn: %v", err)
		}
		close(f.hold)
		synctest.Wait()
		if f.calls != 12 {
			t.Errorf("%d calls came through, want 12", f.calls)
		}
	})
}

func TestLimitLeavesLongCallsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p := Limit(f, LimitOptions{Calls: 1})
		_, q := handles(p)
		f.hold = make(chan struct{})
		go func() { _, _ = q.Wait(t.Context()) }()
		go func() { _, _ = q.Info(t.Context()) }()
		synctest.Wait()
		if f.now != 2 {
			t.Errorf("%d under way, want a wait and a call", f.now)
		}
		close(f.hold)
	})
}

func TestLimitPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Limit(&fake{}, LimitOptions{Every: time.Second})
		began := time.Now()
		for range 5 {
			_, _ = p.List(t.Context(), "x")
		}
		if got := time.Since(began); got != 4*time.Second {
			t.Errorf("five calls took %v, want 4s", got)
		}
		time.Sleep(time.Hour)
		began = time.Now()
		_, _ = p.List(t.Context(), "x")
		if got := time.Since(began); got != 0 {
			t.Errorf("after an hour's rest a call waits %v", got)
		}
	})
}
