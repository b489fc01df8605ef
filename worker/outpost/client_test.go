package outpost_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/outpostpool/pool/worker/outpost"
	double "github.com/outpostpool/pool/worker/outpost/outposttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "cog_not-to-be-seen-anywhere"

// setup is a double, what stands before it, and a client, all in memory.
type setup struct {
	*double.Server
	outpost double.Outpost
	client  *outpost.Client
	mu      sync.Mutex
	paths   []string
	before  func(*http.Request) // runs before each request; may be nil
}

func start(t *testing.T, o double.Options) *setup {
	t.Helper()
	if len(o.Outposts) == 0 {
		o.Outposts = []double.Outpost{{Name: "web", Platform: "linux"}}
	}
	s := &setup{Server: double.New(o)}
	s.outpost = s.State().Outposts[0]
	httpClient, stop := double.InMemory(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.paths = append(s.paths, r.Method+" "+r.URL.Path)
		before := s.before
		s.mu.Unlock()
		if before != nil {
			before(r)
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(stop)
	s.client = outpost.New(outpost.Options{
		APIURL: "http://127.0.0.1/opbeta",
		Token:  func(context.Context) (string, error) { return token + "\n", nil },
		HTTP:   httpClient,
	})
	return s
}

func (s *setup) add(t *testing.T, n double.NewSession) string {
	t.Helper()
	id, err := s.AddSession(n)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (s *setup) fault(t *testing.T, f double.Fault) {
	t.Helper()
	if _, err := s.SetFault(f); err != nil {
		t.Fatal(err)
	}
}

// claim takes a session as a worker would.
func (s *setup) claim(t *testing.T, id, acceptor string) {
	t.Helper()
	r, _ := http.NewRequest(http.MethodPost, "http://x/opbeta/outposts/devins/"+id+"/claim", strings.NewReader(fmt.Sprintf(`{"acceptor_id":%q}`, acceptor)))
	r.Header.Set("Authorization", "Bearer "+token)
	w := &recorder{header: http.Header{}}
	s.ServeHTTP(w, r)
	if w.status != http.StatusOK {
		t.Fatalf("claim %s: %d", id, w.status)
	}
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

func ids(entries []outpost.Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.SessionID)
	}
	return out
}

func TestOnePollShowsThePool(t *testing.T) {
	s := start(t, double.Options{})
	for _, id := range []string{"devin-a", "devin-b", "devin-c", "devin-d"} {
		s.add(t, double.NewSession{ID: id})
	}
	s.add(t, double.NewSession{ID: "devin-win", Platform: "windows"})
	s.claim(t, "devin-b", "web-uid-0")
	s.claim(t, "devin-c", "other-uid-0")
	q, err := s.client.Queue(t.Context(), s.outpost.ID)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ got, want []string }{
		"all":             {ids(q.Entries), []string{"devin-a", "devin-d", "devin-win", "devin-b", "devin-c"}},
		"of one slot":     {ids(q.Claimed("web-uid-0")), []string{"devin-b"}},
		"of an idle slot": {ids(q.Claimed("web-uid-1")), nil},
		"of one pool":     {ids(q.ClaimedIn("web-uid-")), []string{"devin-b"}},
		"for linux":       {ids(q.Claimable("linux")), []string{"devin-a", "devin-d"}},
		"for anything":    {ids(q.Claimable("")), []string{"devin-a", "devin-d", "devin-win"}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if n := s.Requests()[double.OpList]; n != 1 {
		t.Errorf("one poll took %d requests", n)
	}
}

func TestEveryPageIsReadWhateverTheListDoes(t *testing.T) {
	for _, kind := range []string{
		"", double.ShapeRepeatRows, double.ShapeEmptyLastPage, double.ShapeRepeatCursor, double.ShapePoolID,
		double.ShapeUnknownStatus, double.ShapeDeadlineMillis, double.ShapeDeadlineISO, double.ShapeExtraFields,
	} {
		for _, sessions := range []int{0, 1, 9, 10, 11, 19, 28, 57} {
			t.Run(fmt.Sprintf("%s/%d", kind, sessions), func(t *testing.T) {
				s := start(t, double.Options{PageSize: 10})
				other := s.AddOutpost(double.Outpost{Name: "other"})
				s.add(t, double.NewSession{ID: "devin-stranger", OutpostID: other.ID})
				for i := range sessions {
					s.add(t, double.NewSession{ID: fmt.Sprintf("devin-%02d", i)})
				}
				if sessions > 0 {
					s.claim(t, "devin-00", "web-0")
				}
				if kind != "" {
					s.fault(t, double.Fault{Kind: kind})
				}
				q, err := s.client.Queue(t.Context(), s.outpost.ID)
				if err != nil {
					t.Fatal(err)
				}
				if len(q.Entries) != sessions || q.Unreadable != 0 {
					t.Fatalf("got %d entries and %d unreadable, want %d", len(q.Entries), q.Unreadable, sessions)
				}
				if sessions == 0 {
					return
				}
				held := q.Claimed("web-0")
				if len(held) != 1 || held[0].SessionID != "devin-00" || held[0].OutpostID != s.outpost.ID {
					t.Fatalf("held: %+v", held)
				}
				if left := time.Until(held[0].Deadline); left < 4*time.Minute || left > 5*time.Minute {
					t.Errorf("the claim lasts %s, want 5 min", left)
				}
				if free := len(q.Claimable("linux")); free != sessions-1 {
					t.Errorf("%d claimable, want %d", free, sessions-1)
				}
			})
		}
	}
}

// The reason for one unfiltered list: a session that is claimed while we page
// is still seen, and seen as claimed.
func TestAClaimDuringThePollIsNotMissed(t *testing.T) {
	s := start(t, double.Options{PageSize: 4})
	for i := range 10 {
		s.add(t, double.NewSession{ID: fmt.Sprintf("devin-%d", i)})
	}
	requests := 0
	s.before = func(r *http.Request) {
		if requests++; requests == 2 {
			s.claim(t, "devin-0", "web-0") // was on the page that we have
			s.claim(t, "devin-9", "web-1") // is on a page to come
		}
	}
	q, err := s.client.Queue(t.Context(), s.outpost.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Entries) != 10 || len(q.Claimed("web-0")) != 1 || len(q.Claimed("web-1")) != 1 {
		t.Errorf("entries %v, web-0 %v, web-1 %v", ids(q.Entries), ids(q.Claimed("web-0")), ids(q.Claimed("web-1")))
	}
}

func TestLeftoversAreNotClaimable(t *testing.T) {
	s := start(t, double.Options{})
	s.fault(t, double.Fault{Kind: double.ShapeLeftovers})
	s.fault(t, double.Fault{Kind: double.ShapeKeepSuspended})
	s.add(t, double.NewSession{ID: "devin-over"})
	s.add(t, double.NewSession{ID: "devin-asleep"})
	s.add(t, double.NewSession{ID: "devin-begun", Status: "running"})
	if err := errors.Join(s.Terminate("devin-over"), s.Suspend("devin-asleep")); err != nil {
		t.Fatal(err)
	}
	q, err := s.client.Queue(t.Context(), s.outpost.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Entries) != 3 {
		t.Errorf("the list has %v", ids(q.Entries))
	}
	if diff := cmp.Diff([]string{"devin-begun"}, ids(q.Claimable("linux"))); diff != "" {
		t.Error(diff)
	}
}

func TestTheQueueOfAnUnknownOutpost(t *testing.T) {
	s := start(t, double.Options{})
	_, err := s.client.Queue(t.Context(), "outpost_env-00000000000000000000000000000000")
	if !outpost.IsNotFound(err) || err.Error() != "read the queue: Outpost not found; is the outpost gone? pool outpost ls lists what there is" {
		t.Errorf("got %v", err)
	}
}

func TestReadTimeIsTheMomentOfSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, double.Options{PageSize: 2})
		for i := range 3 {
			s.add(t, double.NewSession{ID: fmt.Sprintf("devin-%d", i)})
		}
		s.fault(t, double.Fault{Kind: double.FaultSlow, Delay: 7 * time.Second})
		sent := time.Now()
		q, err := s.client.Queue(t.Context(), s.outpost.ID)
		if err != nil {
			t.Fatal(err)
		}
		if !q.At.Equal(sent) || time.Since(sent) != 3*7*time.Second { // three pages
			t.Errorf("read time %s after sending, answer after %s", q.At.Sub(sent), time.Since(sent))
		}
	})
}

func TestSessionAndRelease(t *testing.T) {
	s := start(t, double.Options{})
	s.add(t, double.NewSession{ID: "devin-a"})
	s.claim(t, "devin-a", "web-0")
	e, err := s.client.Session(t.Context(), "devin-a")
	if err != nil || e.Acceptor != "web-0" || !e.Claimed() {
		t.Fatalf("session: %+v, %v", e, err)
	}
	for _, c := range []struct {
		session, acceptor string
		want              outpost.Outcome
	}{
		{"devin-a", "web-1", outpost.NotHeld},
		{"devin-a", "web-0", outpost.Released},
		{"devin-a", "web-0", outpost.NotHeld},
		{"devin-none", "web-0", outpost.NotQueued},
		{"../outposts", "web-0", outpost.NotQueued},
	} {
		got, err := s.client.ReleaseClaim(t.Context(), c.session, c.acceptor)
		if err != nil || got != c.want {
			t.Errorf("release %s of %s: got %q, %v, want %q", c.session, c.acceptor, got, err, c.want)
		}
		if err := s.client.Release(t.Context(), "devin-none", c.acceptor); err != nil {
			t.Errorf("release of what is gone: %v", err)
		}
	}
	if record, _ := s.Session("devin-a"); record.Phase != "pending" {
		t.Errorf("after the release: %+v", record)
	}
	if _, err := s.client.Session(t.Context(), "devin-none"); !outpost.IsNotFound(err) {
		t.Errorf("unknown session: %v", err)
	}
	s.fault(t, double.Fault{Kind: double.FaultStatus, Op: double.OpRelease, Status: 500})
	if err := s.client.Release(t.Context(), "devin-a", "web-0"); !outpost.IsUnreachable(err) {
		t.Errorf("a failed release: %v", err)
	}
}
