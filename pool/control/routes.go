package control

import (
	"context"
	_ "embed"
	"net/http"
	"time"
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the description of the API, as served at /v1/openapi.yaml.
func OpenAPI() []byte { return openAPI }

// route is one line of the API.
type route struct {
	Method, Path string
	handle       http.HandlerFunc
}

func (s *server) routes() []route {
	return []route{
		{http.MethodGet, "/healthz", s.health},
		{http.MethodGet, "/v1/version", s.version},
		{http.MethodGet, "/v1/openapi.yaml", s.description},
		{http.MethodGet, "/v1/pool", s.pool},
		{http.MethodGet, "/v1/events", s.events},
		{http.MethodGet, "/v1/sessions", s.sessions},
		{http.MethodGet, "/v1/logs", s.logs},
		{http.MethodPost, "/v1/scale", s.scale},
		{http.MethodPost, "/v1/down", s.down},
		{http.MethodPost, "/v1/workers/{name}/restart", s.act(s.backend.Restart)},
		{http.MethodPost, "/v1/workers/{name}/drain", s.act(s.backend.Drain)},
		{http.MethodPost, "/v1/workers/{name}/undrain", s.undrain},
		{http.MethodGet, "/v1/workers/{name}/exec", s.exec},
	}
}

// healthTime is how long the supervisor's loop may take to answer before it
// counts as stuck.
const healthTime = 5 * time.Second

// health asks the supervisor itself: a server that answers for a loop that
// hangs would keep a sick program alive.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), healthTime)
	defer cancel()
	if _, err := s.backend.Pool(ctx); err != nil {
		s.fail(w, Fail(CodeUnavailable, "the supervisor does not answer: "+err.Error(), ""))
		return
	}
	s.reply(w, map[string]string{"status": "ok"})
}

func (s *server) version(w http.ResponseWriter, _ *http.Request) {
	s.reply(w, Version{Version: s.options.Version, API: "v1"})
}

func (s *server) description(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(openAPI)
}

func (s *server) pool(w http.ResponseWriter, r *http.Request) {
	q := queryOf(r)
	watch := q.bool("watch")
	if err := q.end(); err != nil {
		s.fail(w, err)
		return
	}
	if watch {
		s.watch(w, r)
		return
	}
	p, err := s.backend.Pool(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, whole(p))
}

// whole makes an empty list of a missing one, so that readers need not care.
func whole(p Pool) Pool {
	if p.Workers == nil {
		p.Workers = []Worker{}
	}
	return p
}

func (s *server) sessions(w http.ResponseWriter, r *http.Request) {
	q := queryOf(r)
	limit := q.int("limit", 0, 0)
	if err := q.end(); err != nil {
		s.fail(w, err)
		return
	}
	list, err := s.backend.Sessions(r.Context(), limit)
	if err != nil {
		s.fail(w, err)
		return
	}
	if list == nil {
		list = []ServedSession{}
	}
	s.reply(w, list)
}

func (s *server) scale(w http.ResponseWriter, r *http.Request) {
	body, err := decode[ScaleRequest](r, false)
	if err == nil {
		err = body.check()
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	done, err := s.backend.Scale(r.Context(), body)
	s.replyOr(w, done, err)
}

func (r ScaleRequest) check() error {
	switch {
	case r.Workers < 0:
		return Fail(CodeInvalid, "workers cannot be negative", "0 stops all workers and keeps the pool")
	case r.For < 0:
		return Fail(CodeInvalid, "for cannot be negative", "")
	case r.For > 0 && r.Pin:
		return Fail(CodeInvalid, "for and pin exclude each other", "pin holds the size until the next scale")
	}
	return nil
}

func (s *server) down(w http.ResponseWriter, r *http.Request) {
	body, err := decode[DownRequest](r, true)
	if err != nil {
		s.fail(w, err)
		return
	}
	done, err := s.backend.Down(r.Context(), body)
	s.replyOr(w, done, err)
}

func (s *server) act(do func(context.Context, string, WorkerAction) (Done, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := decode[WorkerAction](r, true)
		if err != nil {
			s.fail(w, err)
			return
		}
		done, err := do(r.Context(), r.PathValue("name"), body)
		s.replyOr(w, done, err)
	}
}

func (s *server) undrain(w http.ResponseWriter, r *http.Request) {
	if _, err := decode[struct{}](r, true); err != nil {
		s.fail(w, err)
		return
	}
	done, err := s.backend.Undrain(r.Context(), r.PathValue("name"))
	s.replyOr(w, done, err)
}

func (s *server) replyOr(w http.ResponseWriter, v any, err error) {
	if err != nil {
		s.fail(w, err)
		return
	}
	s.reply(w, v)
}
