package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// keeps makes a node one that keeps the state, of those in a list.
func keeps(address, list string) func(*Options) {
	return func(o *Options) {
		o.Working, o.Keeps, o.Agree = All, address, map[string]string{joinSetting: list}
	}
}

// isRemoved waits for a node that does not start because its id was removed.
func isRemoved(t *testing.T, j *joining) {
	t.Helper()
	err := <-j.err
	removed := (*Removed)(nil)
	if !errors.As(err, &removed) || protocol.CodeOf(err) != protocol.InvalidState || !strings.Contains(err.Error(), `"b" was removed from the cluster at 2000-01-`) || !strings.Contains(err.Error(), "by key:ops") {
		t.Errorf("it ends with %v", err)
	}
}

// TestARemovedBridgeStartsNoMore removes one that has left, once it has, and looks
// whether it comes back: at once, and long after.
func TestARemovedBridgeStartsNoMore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		a := stream.join(t, "a", together).works(t)
		b := stream.join(t, "b", together).works(t)
		time.Sleep(time.Second)
		if err := a.Remove(t.Context(), "b", "key:ops"); protocol.CodeOf(err) != protocol.InvalidState {
			t.Errorf("while it lives: %v", err)
		}
		if known, removed, err := a.Known(t.Context(), "b"); !known || removed || err != nil {
			t.Errorf("it is known %t, removed %t, %v", known, removed, err)
		}
		if err := b.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 { // again does nothing
			if err := a.Remove(t.Context(), "b", "key:ops"); err != nil {
				t.Fatal(err)
			}
		}
		if known, removed, err := a.Known(t.Context(), "b"); !known || !removed || err != nil {
			t.Errorf("it is known %t, removed %t, %v", known, removed, err)
		}
		if known, _, err := a.Known(t.Context(), "x"); known || err != nil {
			t.Errorf("a stranger is known, %v", err)
		}
		isRemoved(t, stream.join(t, "b", together))
		time.Sleep(time.Hour)
		isRemoved(t, stream.join(t, "b", together))
		if living(a) != "a" || a.Check() != nil {
			t.Errorf("members are %q, %v", living(a), a.Check())
		}
	})
}

// TestAnEndedBridgeThatKeepsACopyIsAbsent until it comes back, is removed, or another one
// has its place.
func TestAnEndedBridgeThatKeepsACopyIsAbsent(t *testing.T) {
	const list = "a:1,b:1,c:1"
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		a := stream.join(t, "a", keeps("a:1", list)).works(t)
		b := stream.join(t, "b", keeps("b:1", list)).works(t)
		c := stream.join(t, "c", keeps("c:1", list)).works(t)
		x := stream.join(t, "x", func(o *Options) { o.Working = All; o.Agree = map[string]string{joinSetting: list} }).works(t)
		absent := func(want ...Absent) {
			t.Helper()
			synctest.Wait()
			if got := a.Absent(); !slices.Equal(got, want) {
				t.Errorf("absent are %v, want %v", got, want)
			}
		}
		absent()
		for _, m := range []*Membership{b, c, x} {
			if err := m.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		absent(Absent{"b", Left, "b:1"}, Absent{"c", Left, "c:1"})
		time.Sleep(2 * time.Hour)
		absent(Absent{"b", Left, "b:1"}, Absent{"c", Left, "c:1"})
		stream.join(t, "b", keeps("b:1", list)).works(t)
		absent(Absent{"c", Left, "c:1"})
		if err := a.Remove(t.Context(), "c", "key:ops"); err != nil {
			t.Fatal(err)
		}
		absent()
	})
}

// TestABridgeIsRemovedThatNobodyRemembers removes one of which there is no record.
func TestABridgeIsRemovedThatNobodyRemembers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		a := stream.join(t, "a", together).works(t)
		if err := a.Remove(t.Context(), "b", "key:ops"); err != nil {
			t.Fatal(err)
		}
		isRemoved(t, stream.join(t, "b", together))
	})
}

// TestAVerdictOnWhoKeepsTheStateIsRemembered looks for the record of a dead bridge that
// kept a copy, from which it is known where that was.
func TestAVerdictOnWhoKeepsTheStateIsRemembered(t *testing.T) {
	for _, test := range []struct {
		record Record
		life   time.Duration
	}{
		{Record{}, time.Hour},
		{Record{Removed: &Removal{}}, 0},
		{Record{Member: Member{Keeps: "a:1"}}, 0},
	} {
		if got := test.record.endedLife(); got != test.life {
			t.Errorf("%+v lives for %v", test.record, got)
		}
	}
}

// TestAnotherTakesThePlaceOfARemovedBridge replaces one of three that keep the state by
// one at another address, and goes on with the new list at each bridge.
func TestAnotherTakesThePlaceOfARemovedBridge(t *testing.T) {
	const before, after = "a:1,b:1,c:1", "a:1,c:1,d:1"
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		a := stream.join(t, "a", keeps("a:1", before)).works(t)
		b := stream.join(t, "b", keeps("b:1", before)).works(t)
		c := stream.join(t, "c", keeps("c:1", before)).works(t)
		leave := func(m *Membership) {
			t.Helper()
			if err := m.Leave(context.WithoutCancel(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		refused := func(j *joining) {
			t.Helper()
			if err := <-j.err; err == nil || !strings.Contains(err.Error(), "cluster.join is") {
				t.Errorf("it ends with %v", err)
			}
		}
		leave(b)
		refused(stream.join(t, "d", keeps("d:1", after)))
		time.Sleep(rememberEnded + time.Minute)
		if err := a.Remove(t.Context(), "b", "key:ops"); err != nil {
			t.Fatal(err)
		}
		refused(stream.join(t, "x", keeps("x:1", "a:1,d:1,x:1")))
		d := stream.join(t, "d", keeps("d:1", after)).works(t)
		leave(a)
		a = stream.join(t, "a", keeps("a:1", before)).works(t) // its operator was not so quick
		leave(a)
		a = stream.join(t, "a", keeps("a:1", after)).works(t)
		leave(c)
		c = stream.join(t, "c", keeps("c:1", after)).works(t)
		if living(d) != "d a c" || c.Check() != nil {
			t.Errorf("members are %q, %v", living(d), c.Check())
		}
	})
}

// TestThePlaceOfARemovedBridgeIsTakenOnce has a bridge at the address of a removed one,
// and then another one at an address of its own.
func TestThePlaceOfARemovedBridgeIsTakenOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stream := newMemory()
		a := stream.join(t, "a", keeps("a:1", "a:1,b:1,c:1")).works(t)
		b := stream.join(t, "b", keeps("b:1", "a:1,b:1,c:1")).works(t)
		if err := b.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.Remove(t.Context(), "b", "key:ops"); err != nil {
			t.Fatal(err)
		}
		_ = stream.join(t, "d", keeps("b:1", "a:1,b:1,c:1")).works(t)
		if err := <-stream.join(t, "e", keeps("e:1", "a:1,c:1,e:1")).err; err == nil || !strings.Contains(err.Error(), "cluster.join is") {
			t.Errorf("it ends with %v", err)
		}
	})
}
