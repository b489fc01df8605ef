package local

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMembers(t *testing.T) {
	procs := func(all ...proc) table {
		t := table{}
		for _, p := range all {
			t[p.pid] = p
		}
		return t
	}
	keeper := proc{pid: 10, ppid: 1, sid: 10, group: 10, start: 100}
	worker := proc{pid: 11, ppid: 10, sid: 11, group: 11, start: 101}
	for _, c := range []struct {
		name string
		t    table
		also []int
		want []int
	}{
		{"the worker alone", procs(keeper, worker), nil, []int{11}},
		{"its children and theirs, in whatever session",
			procs(keeper, worker, proc{pid: 12, ppid: 11, sid: 12, start: 110}, proc{pid: 13, ppid: 12, sid: 12, start: 111}), nil, []int{11, 12, 13}},
		{"an orphan of its session, with the worker dead",
			procs(keeper, proc{pid: 14, ppid: 1, sid: 11, start: 120}), nil, []int{14}},
		{"an orphan of its group",
			procs(keeper, worker, proc{pid: 15, ppid: 1, sid: 99, group: 11, start: 120}), nil, []int{11, 15}},
		{"what was found otherwise, with its children",
			procs(keeper, proc{pid: 16, ppid: 1, sid: 16, start: 130}, proc{pid: 17, ppid: 16, sid: 17, start: 131}), []int{16}, []int{16, 17}},
		{"not another process that got the worker's number, nor its session",
			procs(keeper, proc{pid: 11, ppid: 1, sid: 11, group: 11, start: 500}, proc{pid: 18, ppid: 11, sid: 11, group: 11, start: 501}), nil, nil},
		{"not what is older than the worker",
			procs(keeper, proc{pid: 19, ppid: 1, sid: 11, start: 50}), nil, nil},
		{"not the keeper's helpers, nor zombies, nor init",
			procs(proc{pid: 1, sid: 1}, keeper, worker, proc{pid: 20, ppid: 10, sid: 10, group: 10, start: 140},
				proc{pid: 21, ppid: 11, sid: 11, zombie: true, start: 150}), []int{1, 10, 20}, []int{11}},
		{"the worker before it has a session of its own",
			procs(keeper, proc{pid: 11, ppid: 10, sid: 10, group: 10, start: 101}), nil, []int{11}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []int
			for _, p := range members(c.t, roots{worker: id{11, 101}, keeper: id{10, 100}, also: c.also}) {
				got = append(got, p.pid)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWallKeepers(t *testing.T) {
	all := table{
		11: {pid: 11, ppid: 10, start: 1}, 12: {pid: 12, ppid: 11, start: 2}, 13: {pid: 13, ppid: 12, start: 3},
	}
	if got := wallKeepers(all, id{11, 1}); !cmp.Equal(got, []int{11, 12}) {
		t.Errorf("%v", got)
	}
	if got := wallKeepers(all, id{11, 9}); got != nil {
		t.Errorf("of a dead one: %v", got)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 7 8 9 0 -1 4194560 1 2 3 4 100 50 25 25 20 0 1 0 987654 1000 3 18446744073709551615"
	want := proc{pid: 42, ppid: 7, group: 8, sid: 9, start: 987654, cpu: 2 * time.Second, memory: 3 * pageSize}
	for _, name := range []string{"sh", "a b", ") S 1 1", "x\n(y)"} {
		if got, ok := parseStat([]byte("42 (" + name + ")" + rest)); !ok || got != want {
			t.Errorf("%q: %+v %v", name, got, ok)
		}
	}
	for _, bad := range []string{"", "42", "42 (sh", "42 (sh) S 1", "x (sh)" + rest, ") (42"} {
		if got, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (sh) S 7 8 9 0 -1 4194560 1 2 3 4 100 50 25 25 20 0 1 0 987654 1000 3"))
	f.Fuzz(func(t *testing.T, data []byte) { parseStat(data) })
}
