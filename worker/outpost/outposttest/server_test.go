package outposttest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const token = "cog_double-token"

// bench is a double in memory with plain calls to it.
type bench struct {
	*Server
	t    *testing.T
	http *http.Client
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	if o.Outposts == nil {
		o.Outposts = []Outpost{{Name: "web", Platform: platform()}}
	}
	s := New(o)
	client, stop := InMemory(s)
	t.Cleanup(stop)
	t.Cleanup(s.Close)
	return &bench{Server: s, t: t, http: client}
}

// call speaks the API and returns status and decoded answer.
func (b *bench) call(method, path string, body any, headers ...string) (int, map[string]any) {
	b.t.Helper()
	encoded, _ := json.Marshal(body)
	r, _ := http.NewRequest(method, "http://double"+path, strings.NewReader(string(encoded)))
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, _ := io.ReadAll(answer.Body)
	var decoded map[string]any
	json.Unmarshal(raw, &decoded)
	return answer.StatusCode, decoded
}

func (b *bench) claim(session, acceptor string, headers ...string) int {
	b.t.Helper()
	status, _ := b.call("POST", "/opbeta/outposts/devins/"+session+"/claim", map[string]string{"acceptor_id": acceptor}, headers...)
	return status
}

func (b *bench) release(session, acceptor string, headers ...string) int {
	b.t.Helper()
	status, _ := b.call("POST", "/opbeta/outposts/devins/"+session+"/release", map[string]string{"acceptor_id": acceptor}, headers...)
	return status
}

// connect begins the service as a worker does.
func (b *bench) connect(session, acceptor string) string {
	b.t.Helper()
	_, entry := b.call("POST", "/opbeta/outposts/devins/"+session+"/claim", map[string]string{"acceptor_id": acceptor})
	connectToken := entry["status"].(map[string]any)["connect_token"].(string)
	if status, answer := b.call("POST", "/_double/sessions/"+session+"/connect", nil, "Authorization", "Bearer "+connectToken); status != 200 {
		b.t.Fatalf("connect: %d %v", status, answer)
	}
	return connectToken
}

func (b *bench) add(n NewSession) string {
	b.t.Helper()
	id, err := b.AddSession(n)
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

func (b *bench) session(id string) Session {
	b.t.Helper()
	record, found := b.Session(id)
	if !found {
		b.t.Fatalf("no session %s", id)
	}
	return record
}

func TestOfManyClaimsOneWins(t *testing.T) {
	b := newBench(t, Options{})
	id := b.add(NewSession{})
	var won, lost sync.Map
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			acceptor := fmt.Sprintf("web-%d", i)
			switch status := b.claim(id, acceptor); status {
			case 200:
				won.Store(acceptor, true)
			case 409:
				lost.Store(acceptor, true)
			default:
				t.Errorf("claim: %d", status)
			}
		})
	}
	wait.Wait()
	holder := b.session(id).Acceptor
	if _, is := won.Load(holder); !is {
		t.Errorf("the holder %q did not win", holder)
	}
	if n := size(&won); n != 1 || size(&lost) != 19 {
		t.Errorf("%d won, %d lost", n, size(&lost))
	}
	if len(b.Violations()) != 0 {
		t.Errorf("a race is no violation: %v", b.Violations())
	}
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

func TestClaimsExpireUnlessRenewedOrServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		for _, id := range []string{"devin-idle", "devin-renewed", "devin-served"} {
			b.add(NewSession{ID: id})
		}
		b.claim("devin-idle", "web-0")
		b.claim("devin-renewed", "web-0")
		b.connect("devin-served", "web-0")
		time.Sleep(200 * time.Second)
		b.claim("devin-renewed", "web-0")
		time.Sleep(101 * time.Second)
		for id, phase := range map[string]string{"devin-idle": "pending", "devin-renewed": "claimed", "devin-served": "claimed"} {
			if got := b.session(id).Phase; got != phase {
				t.Errorf("%s is %s, want %s", id, got, phase)
			}
		}
		if status := b.claim("devin-idle", "web-1"); status != 200 {
			t.Errorf("claiming what expired: %d", status)
		}
		time.Sleep(time.Hour)
		if got := b.session("devin-served"); got.Phase != "claimed" || got.Status != "running" {
			t.Errorf("a live session left its holder: %+v", got)
		}
	})
}

func TestReleaseGivesBackAtOnce(t *testing.T) {
	b := newBench(t, Options{})
	id := b.add(NewSession{})
	b.connect(id, "web-0")
	for _, step := range []struct {
		acceptor string
		want     int
	}{{"web-1", 409}, {"web-0", 200}, {"web-0", 409}} {
		if got := b.release(id, step.acceptor); got != step.want {
			t.Errorf("release by %s: %d, want %d", step.acceptor, got, step.want)
		}
	}
	if got := b.session(id); got.Phase != "pending" || got.Status != "running" {
		t.Errorf("after the release: %+v", got)
	}
	if got := b.claim(id, "web-1"); got != 200 {
		t.Errorf("the next claim: %d", got)
	}
	if got := b.release("devin-none", "web-0"); got != 404 {
		t.Errorf("release of nothing: %d", got)
	}
}

func TestSuspendAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		id := b.add(NewSession{Script: Script{For: time.Minute, ResumeAfter: 10 * time.Second}})
		connectToken := b.connect(id, "web-0")
		time.Sleep(20 * time.Second)
		if status, _ := b.call("POST", "/_double/sessions/"+id+"/sleep", nil, "Authorization", "Bearer "+connectToken); status != 200 {
			t.Fatalf("sleep: %d", status)
		}
		if status, _ := b.call("GET", "/opbeta/outposts/devins/"+id, nil); status != 404 {
			t.Errorf("a sleeping session's entry: %d", status)
		}
		time.Sleep(10 * time.Second)
		status, entry := b.call("GET", "/opbeta/outposts/devins/"+id, nil)
		if status != 200 || entry["spec"].(map[string]any)["kind"] != "resume" {
			t.Fatalf("after the wake: %d %v", status, entry)
		}
		_, entry = b.call("POST", "/opbeta/outposts/devins/"+id+"/claim", map[string]string{"acceptor_id": "web-1"})
		connectToken = entry["status"].(map[string]any)["connect_token"].(string)
		_, task := b.call("POST", "/_double/sessions/"+id+"/connect", nil, "Authorization", "Bearer "+connectToken)
		if left := time.Duration(task["left"].(float64)); left != 40*time.Second {
			t.Errorf("left to serve: %s, want 40s", left)
		}
		if diff := cmp.Diff([]string{"web-0", "web-1"}, b.session(id).Holders); diff != "" {
			t.Error(diff)
		}
	})
}

func TestHowRowsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			fault Fault
			want  string // phase and status of the row, or gone
			later string
		}{
			{Fault{Kind: ShapeExtraFields}, "gone", "gone"},
			{Fault{Kind: ShapeLeftovers}, "pending terminated", "pending terminated"},
			{Fault{Kind: ShapeLinger, Delay: 5 * time.Second}, "claimed terminated", "gone"},
		} {
			b := newBench(t, Options{})
			b.SetFault(c.fault)
			id := b.add(NewSession{})
			b.claim(id, "web-0")
			b.Terminate(id)
			row := func() string {
				status, entry := b.call("GET", "/opbeta/outposts/devins/"+id, nil)
				if status != 200 {
					return "gone"
				}
				s := entry["status"].(map[string]any)
				return fmt.Sprint(s["phase"], " ", s["session_status"])
			}
			if got := row(); got != c.want {
				t.Errorf("%s: %s, want %s", c.fault.Kind, got, c.want)
			}
			time.Sleep(6 * time.Second)
			if got := row(); got != c.later {
				t.Errorf("%s, later: %s, want %s", c.fault.Kind, got, c.later)
			}
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.add(NewSession{ID: "devin-old"})
		read := func(cursor string) (lines chan string, stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			r, _ := http.NewRequestWithContext(ctx, "GET", "http://double/opbeta/outposts/devins?watch=true&cursor="+cursor, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			answer, err := b.http.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			lines = make(chan string, 100)
			go func() {
				defer close(lines)
				defer answer.Body.Close()
				for scan := bufio.NewScanner(answer.Body); scan.Scan(); {
					if data, is := strings.CutPrefix(scan.Text(), "data: "); is {
						lines <- data
					}
				}
			}()
			return lines, cancel
		}
		type event struct {
			Type, Cursor string
			Object       struct {
				Metadata struct {
					SessionID string `json:"session_id"`
				}
			}
		}
		next := func(lines chan string) (e event) {
			t.Helper()
			if err := json.Unmarshal([]byte(<-lines), &e); err != nil {
				t.Fatal(err)
			}
			return e
		}
		lines, stop := read("")
		if e := next(lines); e.Type != "MODIFIED" || e.Object.Metadata.SessionID != "devin-old" {
			t.Errorf("the replay begins with %+v", e)
		}
		b.add(NewSession{ID: "devin-new"})
		saved := next(lines)
		if saved.Type != "MODIFIED" || saved.Object.Metadata.SessionID != "devin-new" {
			t.Errorf("then comes %+v", saved)
		}
		stop()
		b.Terminate("devin-old")
		lines, stop = read(saved.Cursor)
		if e := next(lines); e.Object.Metadata.SessionID != "devin-new" {
			t.Errorf("at least once: %+v", e)
		}
		if e := next(lines); e.Type != "DELETED" || e.Object.Metadata.SessionID != "devin-old" {
			t.Errorf("what happened in between: %+v", e)
		}
		began := time.Now()
		for range lines { // until the stream ends by itself
		}
		if lived := time.Since(began); lived != 5*time.Minute {
			t.Errorf("the stream lived %s", lived)
		}
		stop()
		b.SetFault(Fault{Kind: ShapeEndedWatch, Count: 1})
		lines, stop = read("")
		if data, open := <-lines; open {
			t.Errorf("an ended watch said %s", data)
		}
		stop()
		b.SetFault(Fault{Kind: ShapeSilentWatch})
		lines, stop = read("")
		b.add(NewSession{})
		time.Sleep(time.Minute)
		if len(lines) > 0 {
			t.Errorf("a silent watch said %s", <-lines)
		}
		stop()
	})
}

func TestViolationsAreFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		as := func(acceptor, instance string, sent time.Time) []string {
			return []string{HeaderAcceptor, acceptor, HeaderInstance, instance, HeaderSent, fmt.Sprint(sent.UnixNano())}
		}
		look := func(acceptor, instance string, sent time.Time) {
			b.call("GET", "/opbeta/outposts/devins", nil, as(acceptor, instance, sent)...)
		}
		kinds := func() (found []string) {
			for _, v := range b.Violations() {
				found = append(found, v.Kind)
			}
			return found
		}
		start := time.Now()
		at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }

		look("web-0", "first", at(1))
		look("web-0", "first", at(5))
		look("web-0", "second", at(6)) // a restart
		look("web-0", "first", at(4))  // sent before, arrives late
		look("web-1", "third", at(5))  // another slot
		if got := kinds(); got != nil {
			t.Fatalf("innocent, yet %v", b.Violations())
		}
		look("web-0", "first", at(7))
		look("web-0", "second", at(8))
		look("web-0", "first", at(9))
		if diff := cmp.Diff([]string{TwoLives}, kinds()); diff != "" {
			t.Fatal(diff)
		}

		b.add(NewSession{ID: "devin-a"})
		b.claim("devin-a", "web-1", as("web-1", "third", time.Now())...)
		time.Sleep(31 * time.Second)
		b.claim("devin-a", "web-2")
		if diff := cmp.Diff([]string{TwoLives, ClaimedHeld}, kinds()); diff != "" {
			t.Fatal(diff)
		}

		b.release("devin-a", "web-1") // by a supervisor, while it lives
		look("web-1", "third", time.Now().Add(-time.Second))
		if diff := cmp.Diff([]string{TwoLives, ClaimedHeld}, kinds()); diff != "" {
			t.Fatal("sent before the release, arrives after it: ", diff)
		}
		time.Sleep(time.Second)
		look("web-1", "third", time.Now())
		if diff := cmp.Diff([]string{TwoLives, ClaimedHeld, ReleasedAlive}, kinds()); diff != "" {
			t.Fatal(diff)
		}

		b.SetFault(Fault{Kind: ShapeLeftovers})
		b.Terminate("devin-a")
		b.claim("devin-a", "web-3")
		if diff := cmp.Diff([]string{TwoLives, ClaimedHeld, ReleasedAlive, ClaimedLeftover}, kinds()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestAWorkersOwnReleaseIsNoViolation(t *testing.T) {
	b := newBench(t, Options{})
	id := b.add(NewSession{})
	mine := func() []string {
		return []string{HeaderAcceptor, "web-0", HeaderInstance, "one", HeaderSent, fmt.Sprint(time.Now().UnixNano())}
	}
	b.claim(id, "web-0", mine()...)
	b.release(id, "web-0", mine()...)
	b.claim(id, "web-0", mine()...)
	if v := b.Violations(); len(v) != 0 {
		t.Error(v)
	}
}

func TestFaultsAreCountedTimedAndDiced(t *testing.T) {
	statuses := func(b *bench, n int) (out []int) {
		for range n {
			status, _ := b.call("GET", "/opbeta/outposts/devins", nil)
			out = append(out, status)
		}
		return out
	}
	b := newBench(t, Options{})
	b.SetFault(Fault{Kind: FaultStatus, Status: 500, Op: OpList, After: 1, Count: 2})
	if diff := cmp.Diff([]int{200, 500, 500, 200}, statuses(b, 4)); diff != "" {
		t.Error(diff)
	}
	if _, err := b.SetFault(Fault{Kind: "gremlins"}); err == nil {
		t.Error("a fault nobody knows was taken")
	}
	if _, err := b.SetFault(Fault{Kind: FaultStatus}); err == nil {
		t.Error("a status fault without a status was taken")
	}
	id, _ := b.SetFault(Fault{Kind: FaultStatus, Status: 500})
	b.ClearFaults(id)
	if diff := cmp.Diff([]int{200}, statuses(b, 1)); diff != "" {
		t.Error(diff)
	}
	diced := func(seed uint64) []int {
		b := newBench(t, Options{Seed: seed})
		b.SetFault(Fault{Kind: FaultStatus, Status: 503, Percent: 50})
		return statuses(b, 40)
	}
	if !cmp.Equal(diced(1), diced(1)) || cmp.Equal(diced(1), diced(2)) {
		t.Error("the dice do not follow the seed")
	}
}

func TestWrongQuestions(t *testing.T) {
	b := newBench(t, Options{Tokens: []string{token}})
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/opbeta/outposts/devins?first=0", 422},
		{"GET", "/opbeta/outposts/devins?first=201", 422},
		{"GET", "/opbeta/outposts/devins?cursor=%21", 422},
		{"GET", "/opbeta/outposts/devins?phase=sleeping", 422},
		{"GET", "/opbeta/outposts/devins?outpost=none", 404},
		{"GET", "/opbeta/outposts/pools", 405},
		{"GET", "/opbeta/outposts/none", 404},
		{"POST", "/opbeta/outposts/devins/devin-a/claim", 422},
		{"POST", "/opbeta/outposts", 422},
		{"POST", "/_double/faults", 400},
		{"POST", "/_double/sessions/none/resume", 400},
		{"POST", "/_double/sessions/none/connect", 401},
	} {
		if got, answer := b.call(c.method, c.path, map[string]any{"misspelled": 1}); got != c.want {
			t.Errorf("%s %s: %d %v, want %d", c.method, c.path, got, answer, c.want)
		}
	}
	if got, _ := b.call("GET", "/opbeta/outposts/devins", nil, "Authorization", "Bearer other"); got != 401 {
		t.Errorf("another token: %d", got)
	}
	b.SetTokens(nil, []string{token})
	id := b.State().Outposts[0].ID
	for path, want := range map[string]int{routePath[RouteShort]: 200, routePath[RouteShort] + "/" + id: 403, routePath[RouteLong] + "/" + id: 403} {
		if got, _ := b.call("GET", path, nil); got != want {
			t.Errorf("%s with a worker's token: %d, want %d", path, got, want)
		}
	}
}

func TestAListFilters(t *testing.T) {
	b := newBench(t, Options{})
	b.add(NewSession{ID: "devin-a"})
	b.add(NewSession{ID: "devin-b"})
	b.claim("devin-b", "web-0")
	for query, want := range map[string]int{"": 2, "phase=pending": 1, "phase=claimed": 1, "acceptor_id=web-0": 1, "acceptor_id=web-1": 0, "first=1": 1} {
		_, answer := b.call("GET", "/opbeta/outposts/devins?"+query, nil)
		if got := len(answer["items"].([]any)); got != want {
			t.Errorf("%s: %d items, want %d", query, got, want)
		}
	}
}

func TestASeedGivesTheSameIDs(t *testing.T) {
	idsOf := func(seed uint64) (out []string) {
		b := newBench(t, Options{Seed: seed})
		for range 3 {
			out = append(out, b.add(NewSession{}))
		}
		return append(out, b.State().Outposts[0].ID)
	}
	if !cmp.Equal(idsOf(7), idsOf(7)) || cmp.Equal(idsOf(7), idsOf(8)) {
		t.Error("ids do not follow the seed")
	}
}

func TestRemoteSteersTheSame(t *testing.T) {
	b := newBench(t, Options{Tokens: []string{token}})
	remote := Remote{URL: "http://double", HTTP: b.http}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	added, err := remote.AddOutpost(t.Context(), Outpost{Name: "second"})
	must(err)
	id, err := remote.AddSession(t.Context(), NewSession{OutpostID: added.ID, Script: Script{For: time.Second}})
	must(err)
	must(remote.Suspend(t.Context(), id))
	must(remote.Resume(t.Context(), id))
	must(remote.Terminate(t.Context(), id))
	_, err = remote.SetFault(t.Context(), Fault{Kind: FaultStatus, Status: 500, Op: OpList})
	must(err)
	if status, _ := b.call("GET", "/opbeta/outposts/devins", nil); status != 500 {
		t.Errorf("with the fault: %d", status)
	}
	must(remote.ClearFaults(t.Context()))
	must(remote.SetTokens(t.Context(), []string{"other"}, nil))
	if status, _ := b.call("GET", "/opbeta/outposts/devins", nil); status != 401 {
		t.Errorf("with other tokens: %d", status)
	}
	state, err := remote.State(t.Context())
	must(err)
	if len(state.Outposts) != 2 || len(state.Sessions) != 1 || state.Sessions[0].Status != "terminated" || state.Requests[OpList] != 2 {
		t.Errorf("state: %+v", state)
	}
	history, err := remote.History(t.Context())
	must(err)
	var kinds []string
	for _, e := range history {
		kinds = append(kinds, e.Kind)
	}
	if diff := cmp.Diff([]string{"added", "suspended", "resumed", "terminated"}, kinds); diff != "" {
		t.Error(diff)
	}
	if _, err := remote.AddSession(t.Context(), NewSession{ID: id}); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("the same id again: %v", err)
	}
}
