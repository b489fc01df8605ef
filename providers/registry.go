package providers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Kind is a registered kind of provider.
type Kind struct {
	Name string // as in [provider] kind
	Doc  string // one line for people
}

// Register makes a kind of provider known. O is the type of its options; Open
// takes no other. Registering a kind twice is a mistake in the program and
// panics.
func Register[O any](kind, doc string, open func(ctx context.Context, options O) (Provider, error)) {
	registered.add(Kind{kind, doc}, opener(kind, open))
}

// Open makes a provider of a registered kind. Options are of the type the kind
// was registered with, or nil for its zero value. Errors: Invalid for an
// unknown kind or options of another type, else what the kind's open returns.
func Open(ctx context.Context, kind string, options any) (Provider, error) {
	return registered.open(ctx, kind, options)
}

// Kinds lists the registered kinds by name.
func Kinds() []Kind { return registered.kinds() }

var registered registry

type openFunc func(ctx context.Context, options any) (Provider, error)

type registry struct {
	mu      sync.Mutex
	docs    map[string]Kind
	openers map[string]openFunc
}

func opener[O any](kind string, open func(context.Context, O) (Provider, error)) openFunc {
	return func(ctx context.Context, options any) (Provider, error) {
		typed, ok := options.(O)
		if !ok && options != nil {
			return nil, Errorf(Invalid, "open provider "+kind, "its options are %T, not %T", typed, options)
		}
		return open(ctx, typed)
	}
}

func (r *registry) add(k Kind, open openFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.docs[k.Name]; twice {
		panic("provider kind " + k.Name + " is registered twice")
	}
	if r.docs == nil {
		r.docs, r.openers = map[string]Kind{}, map[string]openFunc{}
	}
	r.docs[k.Name], r.openers[k.Name] = k, open
}

func (r *registry) open(ctx context.Context, kind string, options any) (Provider, error) {
	r.mu.Lock()
	open := r.openers[kind]
	r.mu.Unlock()
	if open == nil {
		return nil, r.unknown(kind)
	}
	return open(ctx, options)
}

func (r *registry) kinds() []Kind {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.docs), func(a, b Kind) int { return strings.Compare(a.Name, b.Name) })
}

func (r *registry) unknown(kind string) error {
	var names []string
	for _, k := range r.kinds() {
		names = append(names, k.Name)
	}
	e := Errorf(Invalid, fmt.Sprintf("open provider %.40q", kind), "no such kind of provider")
	switch near := nearest(kind, names); {
	case near != "":
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	case len(names) > 0:
		e.Hint = "there are " + strings.Join(names, ", ")
	}
	return e
}

// nearest returns the name that word most likely stands for, else nothing: at
// most a third of the name may be wrong.
func nearest(word string, names []string) string {
	best, least := "", 0
	for _, name := range names {
		d := distance(strings.ToLower(word), name)
		if d <= (len(name)+2)/3 && (best == "" || d < least) {
			best, least = name, d
		}
	}
	return best
}

// distance counts the characters to insert, drop or replace between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
