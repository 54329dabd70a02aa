package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A joining node is one that [Join] has yet to return.
type joining struct {
	line *line
	got  chan *Membership
	err  chan error
	why  func() string // what it waits for
	stop context.CancelFunc
}

func (m *memory) join(t *testing.T, id string, change ...func(*Options)) *joining {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	var why string
	o := Options{ID: id, Version: "test", Waiting: func(reason string) {
		mu.Lock()
		defer mu.Unlock()
		why = reason
	}}
	for _, f := range change {
		f(&o)
	}
	j := &joining{line: m.line(), got: make(chan *Membership, 1), err: make(chan error, 1), stop: stop, why: func() string {
		mu.Lock()
		defer mu.Unlock()
		return why
	}}
	go func() {
		got, err := Join(ctx, j.line, o)
		if err != nil {
			j.err <- err
			return
		}
		j.got <- got
	}()
	return j
}

// works waits for the membership of a node that may work.
func (j *joining) works(t *testing.T) *Membership {
	t.Helper()
	select {
	case m := <-j.got:
		t.Cleanup(func() { _ = m.Leave(context.Background()) })
		return m
	case err := <-j.err:
		t.Fatal(err)
	case <-time.After(eventually.Patience):
		t.Fatal("it does not come to work")
	}
	return nil
}

func together(o *Options) { o.Working = All }

// living are the ids of the members as a node sees them, the oldest first.
func living(m *Membership) string {
	var ids []string
	for _, member := range m.Members() {
		ids = append(ids, member.ID)
	}
	return strings.Join(ids, " ")
}

func TestTheNextWorksWhenTheOldestLeaves(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		a := stream.join(t, "a").works(t)
		waiting := stream.join(t, "b")
		time.Sleep(10 * time.Second)
		if len(waiting.got) > 0 || !strings.Contains(waiting.why(), "standby") {
			t.Fatalf("b works, or waits because %q", waiting.why())
		}
		if living(a) != "a b" || !a.Oldest() || a.Check() != nil {
			t.Errorf("members are %q, %v", living(a), a.Check())
		}
		left := time.Now()
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := waiting.works(t)
		if took := time.Since(left); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if b.Alive(a.Self()) || !b.Alive(b.Self()) || living(b) != "b" {
			t.Errorf("members are %q", living(b))
		}
		if len(a.Lost()) > 0 {
			t.Error("who has left hears a verdict")
		}
	})
}

// TestAWriteWaitsForTheNextRenewal has a bridge write that cannot be sure of itself.
func TestAWriteWaitsForTheNextRenewal(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		only := stream.join(t, "a")
		a := only.works(t)
		only.line.set(func(l *line) { l.cut = true })
		time.Sleep(UnsureAfter)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Sure(ctx); protocol.CodeOf(err) != protocol.StoreUnavailable || ctx.Err() == nil {
			t.Errorf("without NATS: %v", err)
		}
		go func() {
			time.Sleep(3 * time.Second)
			only.line.set(func(l *line) { l.cut = false })
		}()
		if err := a.Sure(t.Context()); err != nil {
			t.Errorf("after a renewal: %v", err)
		}
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestWhatWasToldIsStoredAfterCatchup tells something while a renewal is under way
// that does not have it.
func TestWhatWasToldIsStoredAfterCatchup(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		only := stream.join(t, "a")
		a := only.works(t)
		only.line.set(func(l *line) { l.slow = 250 * time.Millisecond })
		for i := range 20 {
			time.Sleep(37 * time.Millisecond)
			text := fmt.Sprint("told ", i)
			if err := a.Note("part", text); err != nil {
				t.Fatal(err)
			}
			if err := a.Catchup(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, record := stream.record("a"); record.Notes["part"] != text {
				t.Errorf("the record says %q, not %q", record.Notes["part"], text)
			}
		}
	})
}

// TestNobodyWaitsForAMembershipThatHasEnded has a bridge wait to be sure while
// another declares it dead.
func TestNobodyWaitsForAMembershipThatHasEnded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		first := stream.join(t, "a")
		a := first.works(t)
		second := stream.join(t, "b")
		time.Sleep(2 * time.Second)
		first.line.set(func(l *line) { l.cut = true })
		time.Sleep(UnsureAfter)
		go func() {
			second.works(t)
			first.line.set(func(l *line) { l.cut = false })
		}()
		if err := a.Sure(t.Context()); protocol.CodeOf(err) != protocol.StoreUnavailable {
			t.Errorf("after the verdict: %v", err)
		}
	})
}

func TestWhoIsSilentIsDeclaredDeadAndLearnsOfIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		first := stream.join(t, "a")
		a := first.works(t)
		second := stream.join(t, "b")
		time.Sleep(2 * time.Second)
		first.line.set(func(l *line) { l.cut = true })
		silent := time.Now()
		time.Sleep(UnsureAfter)
		if protocol.CodeOf(a.Check()) != protocol.StoreUnavailable {
			t.Errorf("it is sure of itself: %v", a.Check())
		}
		b := second.works(t)
		if took := time.Since(silent); took < SilentAfter || took > SilentAfter+2*RenewEvery+attemptTimeout {
			t.Errorf("it took %v", took)
		}
		first.line.set(func(l *line) { l.cut = false })
		err := <-a.Lost()
		if verdict := (*Verdict)(nil); !errors.As(err, &verdict) || verdict.By != "b" || protocol.CodeOf(err) != protocol.StoreUnavailable {
			t.Errorf("it ends with %v", err)
		}
		if a.Check() == nil || b.Check() != nil {
			t.Errorf("%v, %v", a.Check(), b.Check())
		}
		again := stream.join(t, "a", func(o *Options) { o.epoch = 1 }) // its clock was set back
		time.Sleep(5 * time.Second)
		if !slices.ContainsFunc(b.Members(), func(m Member) bool { return m.ID == "a" && m.Epoch > a.Self().Epoch && m.State == Standby }) {
			t.Errorf("members are %+v", b.Members())
		}
		again.stop()
		if err := <-again.err; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestNobodyDiesWhileTheStreamHasNoLeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		var nodes []*joining
		var members []*Membership
		for _, id := range []string{"a", "b", "c"} {
			j := stream.join(t, id, together)
			nodes, members = append(nodes, j), append(members, j.works(t))
		}
		for range 3 {
			time.Sleep(4 * time.Second)
			for _, n := range nodes {
				n.line.set(func(l *line) { l.cut = true })
			}
			time.Sleep(9 * time.Second)
			for i, n := range nodes { // they come back one after the other
				n.line.set(func(l *line) { l.cut = false })
				time.Sleep(time.Duration(i) * 700 * time.Millisecond)
			}
		}
		time.Sleep(4 * time.Second)
		for _, m := range members {
			if living(m) != "a b c" || m.Check() != nil || len(m.Lost()) > 0 {
				t.Errorf("%v knows %q, %v", m.Self(), living(m), m.Check())
			}
		}
	})
}

func TestARenewalWithoutConfirmationIsNotTakenForAVerdict(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		first := stream.join(t, "a", together)
		a := first.works(t)
		b := stream.join(t, "b", together).works(t)
		for range 5 {
			first.line.set(func(l *line) { l.mute = true })
			time.Sleep(2 * time.Second)
			first.line.set(func(l *line) { l.mute = false })
			time.Sleep(2 * time.Second)
			if a.Check() != nil || len(a.Lost()) > 0 || living(b) != "a b" {
				t.Fatalf("%v; %q live", a.Check(), living(b))
			}
		}
	})
}

func TestTheSecondOfOneNameWaitsForTheFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		first := stream.join(t, "a", together).works(t)
		second := stream.join(t, "a", together)
		time.Sleep(20 * time.Second)
		if len(second.got) > 0 || !strings.Contains(second.why(), `another one with the id "a"`) || first.Check() != nil {
			t.Fatalf("the second waits for %q; %v", second.why(), first.Check())
		}
		if err := first.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := second.works(t); got.Self().Epoch <= first.Self().Epoch {
			t.Errorf("%v follows %v", got.Self(), first.Self())
		}
	})
}

// TestAClockThatIsSetBackGivesNoEarlierEpoch has a bridge start again whose clock
// was years ahead before, after it has left and after it was killed, beside one whose
// clock stayed.
func TestAClockThatIsSetBackGivesNoEarlierEpoch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		other := stream.join(t, "b", together).works(t)
		ahead := uint64(time.Now().AddDate(50, 0, 0).UnixMilli())
		clock := func(epoch uint64) func(*Options) { return func(o *Options) { together(o); o.epoch = epoch } }
		first := stream.join(t, "a", clock(ahead))
		a := first.works(t)
		if a.Self().Epoch != ahead {
			t.Fatalf("it begins as %v", a.Self())
		}
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := stream.join(t, "a", clock(1))
		if a = second.works(t); a.Self().Epoch != ahead+adoptions {
			t.Errorf("after it has left it is %v", a.Self())
		}
		second.line.set(func(l *line) { l.cut = true }) // as if it were killed
		third := stream.join(t, "a", clock(2)).works(t)
		if third.Self().Epoch != ahead+2*adoptions {
			t.Errorf("after it was killed it is %v", third.Self())
		}
		time.Sleep(10 * time.Second)
		if other.Check() != nil || third.Check() != nil || living(other) != "b a" {
			t.Errorf("%v, %v; %q live", other.Check(), third.Check(), living(other))
		}
	})
}

func TestWhoDoesNotFitDoesNotJoin(t *testing.T) {
	keys := func(pepper string) map[string]string {
		return map[string]string{"pepper": pepper}
	}
	for name, test := range map[string]struct {
		working Working
		change  func(*Options)
		says    string // "" if it may
	}{
		"the same":             {All, func(o *Options) {}, ""},
		"another way":          {All, func(o *Options) { o.Working = One }, `cluster.working is "all" there and "one" here`},
		"another setting":      {One, func(o *Options) { o.Agree = map[string]string{"nats.replicas": "1"} }, `nats.replicas is "3" there and "1" here`},
		"another pepper":       {All, func(o *Options) { o.Keys = keys("theirs") }, "pepper in the data folder differ"},
		"no pepper":            {All, func(o *Options) { o.Keys = nil }, "pepper in the data folder differ"},
		"a standby's own keys": {One, func(o *Options) { o.Keys = keys("theirs") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				stream := newMemory()
				common := func(o *Options) {
					o.Working, o.Agree, o.Keys = test.working, map[string]string{"nats.replicas": "3"}, keys("ours")
				}
				a := stream.join(t, "a", common).works(t)
				b := stream.join(t, "b", common, test.change)
				time.Sleep(3 * time.Second)
				if test.says == "" {
					if living(a) != "a b" {
						t.Errorf("members are %q", living(a))
					}
					b.stop()
					if len(b.got) == 0 {
						<-b.err
					} else {
						_ = b.works(t)
					}
					return
				}
				err := <-b.err
				if misfit := (*Misfit)(nil); !errors.As(err, &misfit) || misfit.With != a.Self() || !strings.Contains(err.Error(), test.says) {
					t.Errorf("it ends with %v", err)
				}
				if living(a) != "a" {
					t.Errorf("members are %q", living(a))
				}
			})
		})
	}
}

// A bridge joins with each version of a file from which the newest can be had, and
// beside one that does not serve yet, and cannot say, with any.
func TestABridgeMayHaveAnOlderVersionOfAKeyFile(t *testing.T) {
	for name, test := range map[string]struct {
		mine, theirs string
		state        State
		rotating     bool
		fits         bool
	}{
		"the newest":                      {"3", "3 2", Serving, true, true},
		"the one before":                  {"2", "3 2", Serving, true, true},
		"one that is retired":             {"1", "3 2", Serving, true, false},
		"several, of which one":           {"3 2", "2", Serving, true, true},
		"none":                            {"", "3 2", Serving, true, false},
		"beside one that starts":          {"2", "3", Standby, true, true},
		"none, beside one that starts":    {"", "3", Standby, true, false},
		"another, beside one that starts": {"2", "3", Standby, false, false},
	} {
		rotating := []string{}
		if test.rotating {
			rotating = append(rotating, "x.key")
		}
		mine := Record{Keys: map[string]string{"x.key": test.mine}}
		theirs := Record{Keys: map[string]string{"x.key": test.theirs}, Member: Member{State: test.state}}
		if err := mine.fitsKeys(&theirs, rotating); (err == nil) != test.fits {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVersionsThatDifferByOneWorkTogether(t *testing.T) {
	for wire, fits := range map[int]bool{Wire - 2: false, Wire - 1: true, Wire: true, Wire + 1: true, Wire + 2: false} {
		own := Record{Member: Member{Wire: Wire, Version: "1.0"}}
		err := own.fits(&Record{Member: Member{Node: Node{ID: "b"}, Wire: wire, Version: "2.0"}}, nil)
		if (err == nil) != fits {
			t.Errorf("%d beside %d: %v", Wire, wire, err)
		}
		if err != nil && !strings.Contains(err.Error(), "release 2.0") {
			t.Error(err)
		}
	}
}

// TestAClusterRollsFromVersionToVersion has bridges join beside ones of other versions,
// older and newer ones, and replaces all bridges of a cluster by newer ones.
func TestAClusterRollsFromVersionToVersion(t *testing.T) {
	of := func(newer int) func(*Options) {
		return func(o *Options) { together(o); o.Newer, o.Version = newer, fmt.Sprint("1.", 5+newer) }
	}
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		leave := func(m *Membership) {
			t.Helper()
			if err := m.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		refused := func(id string, newer int, says string) {
			t.Helper()
			err := <-stream.join(t, id, of(newer)).err
			if misfit := (*Misfit)(nil); !errors.As(err, &misfit) || !strings.Contains(err.Error(), says) {
				t.Errorf("a bridge that is newer by %d ends with %v", newer, err)
			}
		}
		all := map[string]*Membership{}
		for _, id := range []string{"a", "b", "c"} {
			all[id] = stream.join(t, id, of(-1)).works(t)
		}
		refused("d", 1, fmt.Sprintf("it speaks version %d of the bridges' protocol (release 1.4) and this one version %d (release 1.6); versions that differ by one work together, so go by the releases in between", Wire-1, Wire+1))
		for newer := range 2 {
			for _, id := range []string{"a", "b", "c"} {
				leave(all[id])
				all[id] = stream.join(t, id, of(newer)).works(t)
				time.Sleep(2 * SilentAfter)
				for id, m := range all {
					if len(m.Members()) != 3 || m.Check() != nil {
						t.Fatalf("%s knows %q: %v", id, living(m), m.Check())
					}
				}
			}
		}
		refused("d", -1, fmt.Sprintf("it speaks version %d of the bridges' protocol (release 1.6) and this one version %d (release 1.4)", Wire+1, Wire-1))
		if got := living(all["a"]); got != "a b c" {
			t.Errorf("members are %q", got)
		}
	})
}

func TestWhoReachesNoServerEndsIfThereWereOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		first := stream.join(t, "a", together)
		a := first.works(t)
		away := func(l *line) { l.cut, l.offline = true, true }
		back := func(l *line) { l.cut, l.offline = false, false }
		first.line.set(away)
		time.Sleep(10 * LonelyAfter)
		if len(a.Lost()) > 0 {
			t.Fatal("it ends although it is alone")
		}
		first.line.set(back)
		second := stream.join(t, "b", together)
		b := second.works(t)
		time.Sleep(time.Second)
		for _, j := range []*joining{first, second} {
			j.line.set(away)
		}
		time.Sleep(LonelyAfter - time.Second)
		if len(a.Lost())+len(b.Lost()) > 0 {
			t.Error("one ends too early")
		}
		if err := <-a.Lost(); protocol.CodeOf(err) != protocol.StoreUnavailable || !strings.Contains(err.Error(), "no server of NATS") {
			t.Error(err)
		}
		<-b.Lost()
		for _, j := range []*joining{first, second} {
			j.line.set(back)
		}
	})
}

func TestWhoWatchesIsToldWhatHappens(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		a := stream.join(t, "a", together).works(t)
		var told []string
		stop := a.Watch(func(c Change) {
			if c.Member.ID != "a" {
				told = append(told, fmt.Sprint(c.Member.ID, " ", c.Kind, " ", c.Member.Notes["relay"]))
			}
		})
		b := stream.join(t, "b", together).works(t)
		if err := b.Note("relay", "here"); err != nil {
			t.Fatal(err)
		}
		if err := a.Catchup(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !a.Alive(b.Self()) {
			t.Error("it does not know who joined before")
		}
		time.Sleep(time.Second)
		if err := b.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		third := stream.join(t, "c", together)
		third.works(t)
		time.Sleep(time.Second)
		third.line.set(func(l *line) { l.cut = true })
		time.Sleep(2 * SilentAfter)
		stop()
		third.line.set(func(l *line) { l.cut = false })
		synctest.Wait()
		if want := []string{"b joined ", "b told here", "b departed here", "c joined ", "c declared dead "}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		if err := a.Note("relay", strings.Repeat("x", maxNote+1)); err == nil {
			t.Error("a note of any size is taken")
		}
	})
}

func TestWhoIsAloneIsTheOnlyMember(t *testing.T) {
	m := Alone(Options{ID: "a"})
	defer m.Leave(t.Context())
	m.Tell(func(r *Record) { r.Ready = true })
	if all := m.Members(); len(all) != 1 || all[0].ID != "a" || !all[0].Ready || !m.Alive(m.Self()) || !m.Oldest() || m.Check() != nil || m.Shared() {
		t.Errorf("members are %+v", all)
	}
	if err := m.Catchup(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWhoDoesNotFitToTheOldestRefusesNobody has three bridges start together, of which
// the second has other secrets than the first: the third is judged by the first alone.
func TestWhoDoesNotFitToTheOldestRefusesNobody(t *testing.T) {
	keys := func(print string) map[string]string { return map[string]string{"pepper": print} }
	for print, with := range map[string]string{"first": "", "second": "a", "third": "a"} {
		m := Alone(Options{ID: "c", Working: All})
		defer m.Leave(t.Context())
		m.machine.joined, m.mine.Keys, m.mine.Agree = 9, keys(print), nil
		for i, id := range []string{"a", "b"} {
			m.machine.peer(entry{id: id, revision: uint64(i + 3), record: Record{
				Keys: keys([]string{"first", "second"}[i]), Member: Member{Node: Node{ID: id}, Wire: Wire, Joined: uint64(i + 3)},
			}})
		}
		err := m.admit()
		misfit := (*Misfit)(nil)
		if with == "" && err != nil || with != "" && (!errors.As(err, &misfit) || misfit.With.ID != with) {
			t.Errorf("with the secrets of the %s one: %v", print, err)
		}
	}
}

func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":"a","epoch":7,"state":"working","notes":{"relay":"x"}}`))
	f.Add([]byte(`{"v":2,"id":"a"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := decodeEntry("a", 5, data)
		if err != nil {
			return
		}
		if e.record.ID != "a" || e.record.Revision != 5 || e.record.Joined == 0 || len(e.record.Notes) > maxNotes {
			t.Fatalf("%s was read as %+v", data, e)
		}
		m := newMachine("b", "i", 1)
		m.seen(e)
		m.confirmed(step{kind: join, epoch: 1}, 0, time.Second, 6)
		m.passed(6)
		if m.oldest() == (!e.record.ended() && e.record.Joined < 6) {
			t.Fatalf("oldest beside %+v: %v", e.record, m.oldest())
		}
	})
}
