package providers

import (
	"context"
	"strings"
	"testing"
)

type fakeOptions struct{ Fail bool }

func TestRegistry(t *testing.T) {
	var r registry
	open := func(_ context.Context, o fakeOptions) (Provider, error) {
		if o.Fail {
			return nil, Errorf(Unauthorized, "open provider fake", "no key")
		}
		return &fake{}, nil
	}
	for _, kind := range []string{"local", "kubernetes", "docker"} {
		r.add(Kind{kind, "makes " + kind}, opener(kind, open))
	}
	if p, err := r.open(t.Context(), "local", fakeOptions{}); p == nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
	if p, err := r.open(t.Context(), "local", nil); p == nil || err != nil {
		t.Errorf("without options: %v, %v", p, err)
	}
	if _, err := r.open(t.Context(), "local", fakeOptions{Fail: true}); !Is(err, Unauthorized) {
		t.Errorf("its own error: %v", err)
	}
	if _, err := r.open(t.Context(), "local", "text"); !Is(err, Invalid) || !strings.Contains(err.Error(), "string") {
		t.Errorf("wrong options: %v", err)
	}
	for kind, hint := range map[string]string{
		"lokal": `did you mean "local"?`, "Docker": `did you mean "docker"?`, "kubernets": `did you mean "kubernetes"?`,
		"aws": "there are docker, kubernetes, local", "": "there are docker, kubernetes, local",
	} {
		_, err := r.open(t.Context(), kind, nil)
		if !Is(err, Invalid) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: %v, want %s", kind, err, hint)
		}
	}
	if k := r.kinds(); len(k) != 3 || k[0] != (Kind{"docker", "makes docker"}) || k[2].Name != "local" {
		t.Errorf("kinds %v", k)
	}
	defer func() {
		if recover() == nil {
			t.Error("a kind was registered twice")
		}
	}()
	r.add(Kind{Name: "local"}, nil)
}

func TestRegisterIsSeenByOpenAndKinds(t *testing.T) {
	Register("test-kind", "for this test", func(context.Context, fakeOptions) (Provider, error) { return &fake{}, nil })
	if p, err := Open(t.Context(), "test-kind", fakeOptions{}); p == nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
	for _, k := range Kinds() {
		if k == (Kind{"test-kind", "for this test"}) {
			return
		}
	}
	t.Errorf("kinds %v", Kinds())
}
