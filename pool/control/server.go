package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// Options of a server. The zero value is fine.
type Options struct {
	Log     *slog.Logger // nil: nothing is logged
	Version string       // of the program; answered at /v1/version

	// Keepalive is the time between two signs of life on a stream, and half
	// of what a silent exec is given before it counts as cut. 15 s when 0.
	Keepalive time.Duration
	// Stall is how long a follower may leave its stream unread before it is
	// dropped; it comes back with its cursor. 30 s when 0.
	Stall time.Duration
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Keepalive == 0 {
		o.Keepalive = 15 * time.Second
	}
	if o.Stall == 0 {
		o.Stall = 30 * time.Second
	}
	return o
}

// Limits on what one client can make the supervisor hold.
const (
	headerTime    = 10 * time.Second
	maxHeader     = 64 << 10
	maxBody       = 64 << 10
	maxExecParams = 1 << 20 // an exec's arguments and variables
	farewell      = 2 * time.Second
)

// Serve answers on l until ctx ends, and then closes it. It returns after
// every request, stream and exec it began has ended.
func Serve(ctx context.Context, l net.Listener, b Backend, o Options) error {
	o = o.withDefaults()
	streams, endStreams := context.WithCancel(ctx)
	defer endStreams()
	h := newServer(b, o)
	srv := &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return streams },
		ReadHeaderTimeout: headerTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-streams.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if srv.Shutdown(bounded) != nil {
			srv.Close()
		}
	}()
	err := srv.Serve(l)
	endStreams()
	<-stopped
	h.open.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// NewHandler is the API without a listener; the caller guards who reaches it.
func NewHandler(b Backend, o Options) http.Handler {
	return newServer(b, o.withDefaults())
}

// server is the API over one backend.
type server struct {
	backend Backend
	options Options
	mux     http.Handler
	open    sync.WaitGroup // handlers under way, hijacked connections included
}

func newServer(b Backend, o Options) *server {
	s := &server{backend: b, options: o}
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, r := range s.routes() {
		mux.HandleFunc(r.Method+" "+r.Path, r.handle)
		methods[r.Path] = append(methods[r.Path], r.Method)
	}
	for path, allowed := range methods {
		mux.HandleFunc(path, wrongMethod(allowed))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, Fail(CodeNotFound, "no such path: "+r.URL.Path, "/v1/openapi.yaml lists them"))
	})
	s.mux = mux
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.open.Add(1)
	defer s.open.Done()
	defer s.catch(w, r)
	if problem := suspicious(r); problem != nil {
		s.fail(w, problem)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.mux.ServeHTTP(w, r)
}

// catch turns a panic into a Problem: a mistake in one answer must not end
// the supervisor, and must not look like an empty success.
func (s *server) catch(w http.ResponseWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	s.options.Log.Error("control: panic in an answer", "path", r.URL.Path, "cause", cause, "stack", string(debug.Stack()))
	s.fail(w, Fail(CodeInternal, "the supervisor made a mistake answering this", "its log has the details: pool logs --supervisor"))
}
