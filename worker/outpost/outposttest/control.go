package outposttest

import (
	"encoding/json"
	"net/http"
)

// control registers the steering for other processes:
//
//	GET    /_double/state                       State
//	GET    /_double/history                     []Event
//	POST   /_double/outposts                    Outpost, answers it with its id
//	POST   /_double/sessions                    NewSession, answers {"id": …}
//	POST   /_double/sessions/{id}/suspend|resume|terminate
//	POST   /_double/faults                      Fault, answers {"id": …}
//	DELETE /_double/faults[/{id}]
//	PUT    /_double/tokens                      {"everything": […], "machine": […]}
//
// It asks for no token: the double listens on loopback and guards nothing.
func (s *Server) control(mux *http.ServeMux) {
	mux.HandleFunc("GET /_double/state", steered(func(*http.Request) (any, error) { return s.State(), nil }))
	mux.HandleFunc("GET /_double/history", steered(func(*http.Request) (any, error) { return s.History(), nil }))
	mux.HandleFunc("POST /_double/outposts", steered(func(r *http.Request) (any, error) {
		o, err := bodyOf[Outpost](r)
		if err != nil {
			return nil, err
		}
		return s.AddOutpost(o), nil
	}))
	mux.HandleFunc("POST /_double/sessions", steered(func(r *http.Request) (any, error) {
		n, err := bodyOf[NewSession](r)
		if err != nil {
			return nil, err
		}
		id, err := s.AddSession(n)
		return map[string]string{"id": id}, err
	}))
	for word, act := range map[string]func(string) error{"suspend": s.Suspend, "resume": s.Resume, "terminate": s.Terminate} {
		mux.HandleFunc("POST /_double/sessions/{id}/"+word, steered(func(r *http.Request) (any, error) {
			return struct{}{}, act(r.PathValue("id"))
		}))
	}
	mux.HandleFunc("POST /_double/faults", steered(func(r *http.Request) (any, error) {
		f, err := bodyOf[Fault](r)
		if err != nil {
			return nil, err
		}
		id, err := s.SetFault(f)
		return map[string]string{"id": id}, err
	}))
	clearFaults := steered(func(r *http.Request) (any, error) {
		if id := r.PathValue("id"); id != "" {
			s.ClearFaults(id)
		} else {
			s.ClearFaults()
		}
		return struct{}{}, nil
	})
	mux.HandleFunc("DELETE /_double/faults", clearFaults)
	mux.HandleFunc("DELETE /_double/faults/{id}", clearFaults)
	mux.HandleFunc("PUT /_double/tokens", steered(func(r *http.Request) (any, error) {
		t, err := bodyOf[struct{ Everything, Machine []string }](r)
		if err != nil {
			return nil, err
		}
		s.SetTokens(t.Everything, t.Machine)
		return struct{}{}, nil
	}))
}

func steered(handle func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := handle(r)
		if err != nil {
			writeAnswer(w, fail(http.StatusBadRequest, "%v", err))
			return
		}
		writeAnswer(w, ok(body))
	}
}

func bodyOf[T any](r *http.Request) (T, error) {
	var body T
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields() // a misspelled fault would be a test that tests nothing
	err := decoder.Decode(&body)
	return body, err
}
