package outpost_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outpostpool/pool/worker/outpost"
	double "github.com/outpostpool/pool/worker/outpost/outposttest"
)

func TestEitherRouteWorksAndIsRemembered(t *testing.T) {
	const short, long = "GET /opbeta/outposts", "GET /opbeta/outposts/outposts"
	for _, status := range []int{404, 405} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := start(t, double.Options{})
			list := func(want ...string) {
				t.Helper()
				s.mu.Lock()
				s.paths = nil
				s.mu.Unlock()
				all, err := s.client.Outposts(t.Context())
				if err != nil || len(all) != 1 || all[0].ID != s.outpost.ID {
					t.Fatalf("got %+v, %v", all, err)
				}
				if diff := cmp.Diff(want, s.paths); diff != "" {
					t.Error(diff)
				}
			}
			list(short)
			s.fault(t, double.Fault{Kind: double.FaultStatus, Status: status, Route: double.RouteShort})
			list(short, long)
			list(long)
			s.ClearFaults()
			s.fault(t, double.Fault{Kind: double.FaultStatus, Status: status, Route: double.RouteLong})
			list(long, short)
			list(short)
		})
	}
}

func TestNeitherRouteIsAnError(t *testing.T) {
	s := start(t, double.Options{})
	s.fault(t, double.Fault{Kind: double.FaultStatus, Status: 404, Route: double.RouteShort})
	s.fault(t, double.Fault{Kind: double.FaultStatus, Status: 405, Route: double.RouteLong})
	if _, err := s.client.Outposts(t.Context()); !outpost.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestAllPagesOfOutposts(t *testing.T) {
	var many []double.Outpost
	for i := range 25 {
		many = append(many, double.Outpost{Name: fmt.Sprintf("outpost-%02d", i), Platform: "macos"})
	}
	for _, n := range []int{1, 9, 10, 20, 25} {
		s := start(t, double.Options{PageSize: 10, Outposts: many[:n]})
		all, err := s.client.Outposts(t.Context())
		if err != nil || len(all) != n {
			t.Fatalf("got %d outposts of %d, %v", len(all), n, err)
		}
		if last := all[n-1]; last.Name != many[n-1].Name || last.Platform != "macos" || last.Created.IsZero() || last.AccountID == "" {
			t.Errorf("the last is %+v", last)
		}
	}
}

func TestFind(t *testing.T) {
	s := start(t, double.Options{Outposts: []double.Outpost{{Name: "web", Platform: "linux"}, {Name: "mac", Platform: "macos"}}})
	s.add(t, double.NewSession{})
	s.add(t, double.NewSession{ID: "devin-held"})
	s.claim(t, "devin-held", "web-0")
	for _, by := range []string{"web", s.outpost.ID} {
		o, err := s.client.Find(t.Context(), by)
		if err != nil || o.ID != s.outpost.ID || o.Platform != "linux" || o.QueueDepth != 1 || o.ActiveClaims != 1 {
			t.Errorf("by %s: %+v, %v", by, o, err)
		}
		if !outpost.IsOutpostID(o.ID) {
			t.Errorf("%s is no outpost id", o.ID)
		}
	}
	_, err := s.client.Find(t.Context(), "wbe")
	if !outpost.IsNotFound(err) || !strings.Contains(fmt.Sprint(err), "it sees mac, web") || strings.Contains(fmt.Sprint(err), "\n") {
		t.Errorf("unknown: %v", err)
	}
	for range 20 {
		s.AddOutpost(double.Outpost{Name: "web"})
	}
	if _, err = s.client.Find(t.Context(), "wbe"); !strings.Contains(fmt.Sprint(err), "and 14 more") {
		t.Errorf("unknown among many: %v", err)
	}
}

func TestCreateAndDelete(t *testing.T) {
	s := start(t, double.Options{})
	made, err := s.client.CreateOutpost(t.Context(), outpost.NewOutpost{Name: "ci", Platform: "windows", Description: "builds", AllowedOrgs: []string{"org-1"}})
	if err != nil || made.ID == "" || made.Platform != "windows" || made.Description != "builds" || len(made.AllowedOrgs) != 1 {
		t.Fatalf("created %+v, %v", made, err)
	}
	if found, err := s.client.Find(t.Context(), "ci"); err != nil || found.ID != made.ID {
		t.Fatalf("found %+v, %v", found, err)
	}
	if err := s.client.DeleteOutpost(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.client.DeleteOutpost(t.Context(), made.ID); !outpost.IsNotFound(err) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := s.client.CreateOutpost(t.Context(), outpost.NewOutpost{Name: "x", Platform: "amiga"}); statusOf(err) != http.StatusUnprocessableEntity || !strings.Contains(fmt.Sprint(err), "platform") {
		t.Errorf("an impossible platform: %v", err)
	}
}

func TestAWorkersTokenMayListButNotCreate(t *testing.T) {
	s := start(t, double.Options{MachineTokens: []string{token}})
	if _, err := s.client.Find(t.Context(), "web"); err != nil {
		t.Errorf("list: %v", err)
	}
	if _, err := s.client.Queue(t.Context(), s.outpost.ID); err != nil {
		t.Errorf("queue: %v", err)
	}
	_, err := s.client.CreateOutpost(t.Context(), outpost.NewOutpost{Name: "ci"})
	if !outpost.IsRejected(err) || !strings.Contains(fmt.Sprint(err), `ManageOutpostsOrchestrator ("Manage outposts")`) {
		t.Errorf("create: %v", err)
	}
	if err := s.client.DeleteOutpost(t.Context(), s.outpost.ID); !outpost.IsRejected(err) {
		t.Errorf("delete: %v", err)
	}
}
