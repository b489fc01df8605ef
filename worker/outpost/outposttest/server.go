// Package outposttest stands in for Devin Cloud and for the Devin CLI: Server
// speaks the documented Fleet API with every fault that was ever seen or
// feared (facts outposts.md Part 2), and Worker behaves like `devin worker
// start`, well or badly on purpose. Both run inside a test, on fake time too,
// and as programs of their own for the demo (RunServer, RunWorker).
//
// What belongs to the double and not to Devin lives below /_double/: steering
// for tests, and the scripts of sessions for the stand-in worker, which in the
// real thing would come through the gateway.
package outposttest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// ClaimTTL is how long a claim lasts unless renewed (facts outposts.md 1.8).
const ClaimTTL = 300 * time.Second

// Options make a double. The zero value is usable: any token, no outposts.
type Options struct {
	Now      func() time.Time // nil: time.Now
	Seed     uint64           // ids, tokens and the dice of faults follow from it
	ClaimTTL time.Duration    // 0: ClaimTTL
	// PageSize is the most rows of one page; 0: 200, as the API has it.
	PageSize int
	// Tokens are accepted for everything, MachineTokens for what a worker and
	// a supervisor may do. Both empty: every token is accepted for everything.
	Tokens        []string
	MachineTokens []string
	Outposts      []Outpost
}

// Server is the double: an http.Handler with state. Safe for concurrent use.
type Server struct {
	opt Options
	mux *http.ServeMux

	mu         sync.Mutex
	dice       *rand.Rand
	outposts   []*Outpost
	sessions   map[string]*session
	sequence   int64         // of the last change; cursors name it
	changed    chan struct{} // closed and replaced at every change
	closing    chan struct{}
	closed     bool
	faults     []*Fault
	faultCount int
	requests   map[string]int
	history    []Event
	violations []Violation
	lives      lives
	tokens     map[string]string // connect token to session id
}

// New makes a double.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ClaimTTL == 0 {
		o.ClaimTTL = ClaimTTL
	}
	if o.PageSize == 0 {
		o.PageSize = maxPage
	}
	s := &Server{
		opt:      o,
		dice:     rand.New(rand.NewPCG(o.Seed, 0)),
		sessions: map[string]*session{},
		changed:  make(chan struct{}),
		closing:  make(chan struct{}),
		requests: map[string]int{},
		lives:    newLives(),
		tokens:   map[string]string{},
	}
	for _, outpost := range o.Outposts {
		s.addOutpost(outpost)
	}
	s.mux = s.routes()
	return s
}

// Close ends open watches. The server still answers.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range []string{RouteShort, RouteLong} {
		path := routePath[route]
		mux.HandleFunc("GET "+path, s.fleet(OpOutpostsList, route, s.listOutposts))
		mux.HandleFunc("POST "+path, s.fleet(OpOutpostsCreate, route, s.createOutpost))
		mux.HandleFunc("GET "+path+"/{id}", s.fleet(OpOutpostsGet, route, s.getOutpost))
		mux.HandleFunc("DELETE "+path+"/{id}", s.fleet(OpOutpostsDelete, route, s.deleteOutpost))
	}
	const devins = "/opbeta/outposts/devins"
	list, watch := s.fleet(OpList, "", s.listSessions), s.watchHandler()
	mux.HandleFunc("GET "+devins, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "true" {
			watch(w, r)
			return
		}
		list(w, r)
	})
	mux.HandleFunc("GET "+devins+"/{id}", s.fleet(OpGet, "", s.getSession))
	mux.HandleFunc("POST "+devins+"/{id}/claim", s.fleet(OpClaim, "", s.claimSession))
	mux.HandleFunc("POST "+devins+"/{id}/release", s.fleet(OpRelease, "", s.releaseSession))
	// The route that July's clients used is retired (facts 2.1).
	for _, method := range []string{"GET ", "POST "} {
		mux.HandleFunc(method+"/opbeta/outposts/pools", func(w http.ResponseWriter, _ *http.Request) {
			writeAnswer(w, fail(http.StatusMethodNotAllowed, "Method Not Allowed"))
		})
	}
	s.control(mux)
	s.gateway(mux)
	return mux
}

// answer is what a handler wants to say.
type answer struct {
	status int
	body   any // nil: none
	header http.Header
}

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

func fail(status int, format string, args ...any) answer {
	return answer{status: status, body: map[string]any{"detail": fmt.Sprintf(format, args...)}}
}

func (a answer) encoded() []byte {
	if a.body == nil {
		return nil
	}
	if html, is := a.body.(page); is {
		return []byte(html)
	}
	encoded, err := json.Marshal(a.body)
	if err != nil {
		panic(err) // only our own types come here
	}
	return append(encoded, '\n')
}

// page is a body that is not the API's.
type page string

func writeAnswer(w http.ResponseWriter, a answer) {
	body := a.encoded()
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if body != nil {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(a.status)
	w.Write(body)
}

// fleet wraps a handler of the documented API: it counts, lets faults happen,
// checks the token, and runs the handler under the lock.
func (s *Server) fleet(op, route string, handle func(*http.Request) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		how := s.begin(op, route, r)
		how.wait(r.Context())
		if how.cut() {
			panic(http.ErrAbortHandler)
		}
		if a, wrong := how.instead(); wrong {
			writeAnswer(w, a)
			return
		}
		s.mu.Lock()
		a, refused := s.refuse(op, r)
		if !refused {
			s.sweep()
			a = handle(r)
		}
		s.mu.Unlock()
		how.write(w, a)
	}
}

// begin notes a request and rolls the dice for what will go wrong with it.
func (s *Server) begin(op, route string, r *http.Request) mishaps {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[op]++
	s.noteLife(r)
	return s.roll(op, route)
}

// refuse checks the token as the API does: unknown 401, without scope 403.
func (s *Server) refuse(op string, r *http.Request) (answer, bool) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	everything := len(s.opt.Tokens) == 0 && len(s.opt.MachineTokens) == 0
	switch {
	case !found || token == "":
		return fail(http.StatusUnauthorized, "Not authenticated"), true
	case everything || slices.Contains(s.opt.Tokens, token):
		return answer{}, false
	case !slices.Contains(s.opt.MachineTokens, token):
		return fail(http.StatusUnauthorized, "Invalid token"), true
	case op == OpOutpostsGet || op == OpOutpostsCreate || op == OpOutpostsDelete:
		return fail(http.StatusForbidden, "Missing scope account.outposts.orchestrator"), true
	}
	return answer{}, false
}

// SetTokens replaces the accepted tokens; see Options.
func (s *Server) SetTokens(everything, machine []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.Tokens, s.opt.MachineTokens = slices.Clone(everything), slices.Clone(machine)
}

// Requests tells how many requests of each operation arrived.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for op, n := range s.requests {
		counts[op] = n
	}
	return counts
}

func (s *Server) hex(digits int) string {
	const alphabet = "0123456789abcdef"
	out := make([]byte, digits)
	for i := range out {
		out[i] = alphabet[s.dice.IntN(len(alphabet))]
	}
	return string(out)
}
