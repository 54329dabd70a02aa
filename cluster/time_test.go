package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/clock"
)

// near is the time that a renewal is under way in these tests, and more.
const near = 50 * time.Millisecond

// A clockwork is a bridge whose clock is off.
type clockwork struct {
	*Membership
	clock *clock.Clock
}

func (m *memory) withClock(t *testing.T, id string, ahead time.Duration) *clockwork {
	t.Helper()
	c := clock.New()
	c.Step(ahead)
	return &clockwork{m.join(t, id, together, func(o *Options) { o.Clock = c }).works(t), c}
}

// common is how far the time of the cluster is ahead of the right one at a bridge.
func (w *clockwork) common() time.Duration {
	return w.clock.Common(w.clock.Steady()).Sub(time.Now())
}

func (w *clockwork) expect(t *testing.T, when string, common, ahead time.Duration) {
	t.Helper()
	if got := w.common(); (got - common).Abs() > near {
		t.Errorf("%s: %s has a time of the cluster that is %v ahead, want %v", when, w.o.ID, got, common)
	}
	if got := w.ClockAhead(); (got - ahead).Abs() > near {
		t.Errorf("%s: the clock of %s is %v ahead of that, want %v", when, w.o.ID, got, ahead)
	}
}

func TestBridgesAgreeOnATimeWhateverTheirClocksSay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		a := stream.withClock(t, "a", 0)
		a.expect(t, "alone", 0, 0)
		b := stream.withClock(t, "b", 2*time.Minute)
		b.expect(t, "at once", 0, 2*time.Minute) // before it reads what others have stored
		c := stream.withClock(t, "c", -time.Hour)
		c.expect(t, "at once", 0, -time.Hour)
		time.Sleep(time.Minute)
		for w, ahead := range map[*clockwork]time.Duration{a: 0, b: 2 * time.Minute, c: -time.Hour} {
			w.expect(t, "a minute later", 0, ahead)
		}
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		b.expect(t, "after the end of the oldest", 0, 2*time.Minute)
		c.expect(t, "after the end of the oldest", 0, -time.Hour)
		if err := c.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		b.expect(t, "the last one, by its calendar", 2*time.Minute, 0)
		b.clock.Step(-2 * time.Minute)
		time.Sleep(time.Second)
		b.expect(t, "the last one, set right", 0, 0)
	})
}

func TestOneWrongClockOfThreeMovesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		a := stream.withClock(t, "a", 2*time.Minute)
		b := stream.withClock(t, "b", 0)
		time.Sleep(time.Minute)
		b.expect(t, "of two, as the first one says", 2*time.Minute, -2*time.Minute)
		c := stream.withClock(t, "c", time.Second)
		time.Sleep(10 * time.Second)
		for w, ahead := range map[*clockwork]time.Duration{a: 119 * time.Second, b: -time.Second, c: 0} {
			w.expect(t, "of three, as two say", time.Second, ahead)
		}
		a.clock.Step(time.Hour)
		time.Sleep(time.Minute)
		for w, ahead := range map[*clockwork]time.Duration{a: 3719 * time.Second, b: -time.Second, c: 0} {
			w.expect(t, "the wrong one is set more wrong", time.Second, ahead)
		}
	})
}

// TestAnOldestThatHasJustJoinedMovesNothing has the older ones end before it knows the
// calendar of the other well.
func TestAnOldestThatHasJustJoinedMovesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		a := stream.withClock(t, "a", 0)
		b := stream.withClock(t, "b", time.Hour)
		c := stream.withClock(t, "c", -time.Hour)
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			time.Sleep(time.Second)
			b.expect(t, "after the end of the oldest", 0, time.Hour)
			c.expect(t, "after the end of the oldest", 0, -time.Hour)
		}
	})
}

// TestRenewalsThatComeLateMoveNoTime has NATS stand still as in an election.
func TestRenewalsThatComeLateMoveNoTime(t *testing.T) {
	var late, soon readings
	for i := range 3 * samples {
		soon.add(time.Duration(i%3) * time.Millisecond)
		late.add(time.Duration(i%3) * time.Millisecond)
	}
	late.add(-9 * time.Second)
	if late.best() != soon.best() {
		t.Errorf("one that is late makes it %v, want %v", late.best(), soon.best())
	}
	for range samples {
		late.add(-time.Minute)
	}
	if late.best() != -time.Minute {
		t.Errorf("a clock that was set back is %v, want -1m", late.best())
	}
}

// TestABridgeOfAnEarlierReleaseTellsNoTime joins one that tells no clocks.
func TestABridgeOfAnEarlierReleaseTellsNoTime(t *testing.T) {
	m := newMachine("b", "i", 1)
	m.phase, m.joined = member, 9
	m.peer(entry{id: "a", revision: 3, record: Record{Member: Member{Joined: 3}}})
	k := newTimekeeper(clock.New())
	k.heard("a", &Record{}, true)
	if !k.decide(m) || k.ahead.Abs() > time.Second {
		t.Errorf("known %v, %v ahead; want its own", k.known, k.ahead)
	}
}

// TestAnOlderOneThatIsStuckHoldsUpNoStart has an older bridge that renews its record and never
// tells the time, since it cannot read the stream.
func TestAnOlderOneThatIsStuckHoldsUpNoStart(t *testing.T) {
	m := newMachine("b", "i", 1)
	m.phase, m.joined = member, 9
	m.peer(entry{id: "a", revision: 3, record: Record{Member: Member{Joined: 3}}})
	k := newTimekeeper(clock.New())
	told := &Record{Calendar: 1}
	for i := range samples - 1 {
		if k.heard("a", told, true); k.decide(m) {
			t.Fatalf("it tells the time after %d renewals of the older one", i+1)
		}
	}
	if k.heard("a", told, true); !k.decide(m) || k.ahead.Abs() > time.Second {
		t.Errorf("known %v, %v ahead; want its own", k.known, k.ahead)
	}
	told.Time = told.Calendar + time.Hour.Milliseconds()
	if k.heard("a", told, true); k.decide(m) || k.ahead > -time.Hour {
		t.Errorf("%v ahead: it does not follow the older one, which knows the time now", k.ahead)
	}
}

// TestWhatIsReadAgainTellsNoTime has a follower begin anew before the first renewal of
// the other comes: the record that it reads then may be old.
func TestWhatIsReadAgainTellsNoTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := Alone(Options{ID: "b"})
		defer m.Leave(t.Context())
		m.heard, m.timed = make(map[string]time.Duration), make(chan struct{})
		stale := Record{Schema: recordSchema, Calendar: 1, Time: 1, Member: Member{Node: Node{ID: "a", Epoch: 1}, State: Serving, Joined: 1}}
		tells := func(revision uint64) {
			data, err := stale.encode()
			if err != nil {
				t.Fatal(err)
			}
			m.each("a", revision, data)
		}
		ctx, stop := context.WithCancel(t.Context())
		rounds := 0
		m.stream = &rereading{line: newMemory().line(), round: func(current func()) {
			if rounds++; rounds == 3 {
				stop()
				return
			}
			tells(1)
			current()
		}}
		m.follow(ctx)
		if n := m.time.peers["a"].cluster.count; n != 0 {
			t.Errorf("%d readings of what was there before", n)
		}
		m.caughtUp()
		tells(2)
		if n := m.time.peers["a"].cluster.count; n != 1 {
			t.Errorf("%d readings of a renewal", n)
		}
	})
}

// rereading is a stream whose reading breaks off.
type rereading struct {
	*line
	round func(current func())
}

func (r *rereading) Follow(_ context.Context, current func(), _ func(string, uint64, []byte)) error {
	r.round(current)
	return errAway
}
