package state

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestWhatIsWrittenIsThereAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool.db")
	s := open(t, path)
	at := time.Unix(1_800_000_000, 5)
	events, err := s.Write(Change{
		Slots:    []Record{{0, []byte(`{"num":0}`)}, {1, []byte(`{"num":1}`)}},
		Settings: map[string]string{"desired": "2"},
		Events:   []Event{{At: at, Worker: "web-0", Kind: "state", Was: "a", Now: "b", Reason: "why", Fields: map[string]string{"pid": "1"}}, {At: at, Kind: "note", Reason: "pool"}},
		Began:    []Session{{ID: "devin-a", Worker: "web-0", Began: at}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if events[0].ID == 0 || events[1].ID != events[0].ID+1 {
		t.Fatalf("ids %d, %d", events[0].ID, events[1].ID)
	}
	if _, err := s.Write(Change{Slots: []Record{{1, []byte(`{"num":1,"x":2}`)}}, Drop: []int{0}, Ended: []Session{{ID: "devin-a", Worker: "web-0", Ended: at.Add(time.Minute), Ending: "left"}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetLogPositions(map[int][]byte{1: []byte(`{"o":7}`)}); err != nil {
		t.Fatal(err)
	}
	s.Close()

	s = open(t, path)
	slots, err := s.Slots()
	if diff := cmp.Diff([]Record{{1, []byte(`{"num":1,"x":2}`)}}, slots); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
	settings, err := s.Settings()
	if settings["desired"] != "2" || err != nil {
		t.Fatal(settings, err)
	}
	got, err := s.Events("web-0", 0, 0)
	if diff := cmp.Diff(events[:1], got); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
	if got, _ := s.Events("", events[0].ID, 0); len(got) != 1 || got[0].Reason != "pool" {
		t.Fatalf("after %d: %v", events[0].ID, got)
	}
	sessions, err := s.Sessions(10)
	if err != nil || len(sessions) != 1 || !sessions[0].Ended.Equal(at.Add(time.Minute)) || sessions[0].Ending != "left" {
		t.Fatal(sessions, err)
	}
	if p, err := s.LogPosition(1); string(p) != `{"o":7}` || err != nil {
		t.Fatal(string(p), err)
	}
	if p, err := s.LogPosition(9); p != nil || err != nil {
		t.Fatal(string(p), err)
	}
}

func TestAChangeIsWrittenWholeOrNotAtAll(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "pool.db"))
	if _, err := s.db.Exec("CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no room'); END"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Write(Change{Slots: []Record{{0, []byte(`{}`)}}, Events: []Event{{Kind: "note"}}})
	if err == nil || !strings.Contains(err.Error(), "no room") {
		t.Fatalf("error: %v", err)
	}
	if slots, _ := s.Slots(); len(slots) != 0 {
		t.Fatalf("half of a change was written: %v", slots)
	}
}

func TestTheNewestEventsOldestFirst(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "pool.db"))
	for _, reason := range []string{"a", "b", "c"} {
		if _, err := s.Write(Change{Events: []Event{{Kind: "note", Reason: reason}}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Events("", 0, 2)
	if err != nil || len(got) != 2 || got[0].Reason != "b" || got[1].Reason != "c" {
		t.Fatal(got, err)
	}
}

func TestAFileFromTheFutureIsRefusedAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool.db")
	open(t, path).Close()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	_, err = Open(path)
	var future *FutureError
	if !errors.As(err, &future) || future.Have != 99 {
		t.Fatalf("error: %v", err)
	}
}

func TestAFileOfAnotherKindIsRefusedAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not a state file") {
		t.Fatalf("error: %v", err)
	}
	if data, _ := os.ReadFile(path); !strings.HasPrefix(string(data), "not a database") {
		t.Fatal("the file was changed")
	}
}

func TestTheFileIsForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool.db")
	s := open(t, path)
	if _, err := s.Write(Change{Events: []Event{{Kind: "note"}}}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", filepath.Base(p), info.Mode().Perm())
		}
	}
}
