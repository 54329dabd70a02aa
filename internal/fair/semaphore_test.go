package fair

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

var (
	alice = Party{Principal: "alice", Space: "home"}
	bob   = Party{Principal: "bob", Space: "home"}
	carol = Party{Principal: "carol", Space: "home"}
	eve   = Party{Principal: "eve", Space: "shop"}
	admin = Party{Principal: "admin", Privileged: true}
)

// fill takes places until there are none for a party.
func fill(s *Semaphore, who Party) (n int, last *protocol.Error) {
	for {
		if last = s.TryAcquire(who, 1); last != nil {
			return n, last
		}
		n++
	}
}

func TestEverybodyHasAShare(t *testing.T) {
	s := New(Options{What: "things", Capacity: 64})
	for _, step := range []struct {
		who  Party
		want int
		of   Whose
	}{
		{alice, 16, OfPrincipal}, // a quarter
		{bob, 16, OfPrincipal},
		{carol, 0, OfSpace}, // two have their space's half
		{eve, 16, OfPrincipal},
		{Party{Principal: "mallory", Space: "shop"}, 12, OfBridge}, // four are kept
		{Party{Principal: "oscar", Space: "barn"}, 0, OfBridge},
		{admin, 4, OfBridge},
	} {
		n, err := fill(s, step.who)
		if n != step.want || protocol.CodeOf(err) != protocol.Busy || err.Details["of"] != string(step.of) || err.RetryAfter() <= 0 {
			t.Errorf("%s gets %d places and then %v %v, want %d and then that of the %s", step.who.Principal, n, err, err.Details, step.want, step.of)
		}
	}
	for range 16 {
		s.Release(alice, 1)
	}
	if n, _ := fill(s, carol); n != 16 {
		t.Errorf("%d places came back, want 16", n)
	}
}

func TestAnAdministratorHasAsMuchAsASpace(t *testing.T) {
	s := New(Options{Capacity: 64})
	if n, err := fill(s, admin); n != 32 || err.Details["of"] != string(OfPrincipal) {
		t.Errorf("%d places, then %v", n, err)
	}
	if err := s.TryAcquire(alice, 1); err != nil {
		t.Errorf("nobody else gets one: %v", err)
	}
}

func TestFewPlacesAreNotDivided(t *testing.T) {
	for capacity := int64(1); capacity < fewest; capacity++ {
		s := New(Options{Capacity: capacity})
		if n, err := fill(s, alice); n != int(capacity) || err.Details["of"] != string(OfPrincipal) {
			t.Errorf("%d of %d places, then %v", n, capacity, err)
		}
	}
}

// A line is goroutines that wait for a place each.
type line struct {
	s      *Semaphore
	served []string
	mu     sync.Mutex
	all    sync.WaitGroup
}

// wait has a party wait for a place, and notes when it gets it.
func (l *line) wait(ctx context.Context, who Party) {
	l.all.Go(func() {
		if err := l.s.Acquire(ctx, who, 1); err == nil {
			l.mu.Lock()
			l.served = append(l.served, who.Principal)
			l.mu.Unlock()
		}
	})
	synctest.Wait() // it stands in the line
}

func TestTurnsGoRoundByPrincipals(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := &line{s: New(Options{Capacity: 1, Waiting: 100})}
		holder := Party{Principal: "holder"}
		if err := l.s.TryAcquire(holder, 1); err != nil {
			t.Fatal(err)
		}
		for _, who := range []Party{alice, alice, alice, alice, bob, bob, eve} {
			l.wait(t.Context(), who)
		}
		l.s.Release(holder, 1)
		for _, want := range []Party{alice, bob, eve, alice, bob, alice, alice} {
			synctest.Wait()
			if got := l.served[len(l.served)-1]; got != want.Principal {
				t.Fatalf("%v were served, want %s now", l.served, want.Principal)
			}
			l.s.Release(want, 1)
		}
		l.all.Wait()
		if l.s.Used() != 0 || l.s.Waiting() != 0 || len(l.s.turns) != 0 {
			t.Errorf("%d used, %d waiting, %d turns", l.s.Used(), l.s.Waiting(), len(l.s.turns))
		}
	})
}

func TestOnePrincipalsQueueHoldsNobodyElseUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := &line{s: New(Options{Capacity: 64, Waiting: 64})}
		ctx, cancel := context.WithCancel(t.Context())
		fill(l.s, alice)
		for range 16 {
			l.wait(ctx, alice)
		}
		if err := l.s.Acquire(ctx, alice, 1); protocol.CodeOf(err) != protocol.Busy {
			t.Errorf("a 17th of alice's waits: %v", err)
		}
		if err := l.s.Acquire(ctx, bob, 1); err != nil || len(l.served) != 0 {
			t.Errorf("bob: %v; served %v", err, l.served)
		}
		cancel()
		l.all.Wait()
	})
}

func TestWaitingEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := New(Options{Capacity: 1, Waiting: 4, Patience: time.Minute})
		if err := s.TryAcquire(alice, 1); err != nil {
			t.Fatal(err)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		if err := s.Acquire(ctx, bob, 1); !errors.Is(err, gone) {
			t.Errorf("%v, want what ended the context", err)
		}
		if err := s.Acquire(t.Context(), bob, 1); protocol.CodeOf(err) != protocol.Busy {
			t.Errorf("%v, want 4008 when patience is at its end", err)
		}
		if s.Waiting() != 0 {
			t.Errorf("%d still wait", s.Waiting())
		}
		s.Release(alice, 1)
		if err := s.TryAcquire(bob, 1); err != nil {
			t.Error(err)
		}
	})
}

func TestWhoNeedsMuchIsNotOvertakenForEver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := New(Options{Capacity: 64, Waiting: 8})
		for _, p := range []Party{alice, bob, eve} {
			if err := s.TryAcquire(p, 16); err != nil {
				t.Fatal(err)
			}
		}
		oscar, small := Party{Principal: "oscar", Space: "shop"}, Party{Principal: "small", Space: "barn"}
		got := make(chan error, 1)
		go func() { got <- s.Acquire(t.Context(), oscar, 16) }() // 12 are free
		synctest.Wait()
		if err := s.TryAcquire(small, 1); err == nil {
			t.Error("somebody who came later took of what the first waits for")
		}
		if err := s.TryAcquire(admin, 4); err != nil {
			t.Errorf("an administrator waits for others: %v", err)
		}
		s.Release(admin, 4)
		s.Release(alice, 16)
		if err := <-got; err != nil {
			t.Error(err)
		}
		if err := s.TryAcquire(small, 1); err != nil {
			t.Error(err)
		}
	})
}

func TestMoreThanAShareIsNeverWaitedFor(t *testing.T) {
	s := New(Options{Capacity: 64, Waiting: 8})
	if err := s.Acquire(t.Context(), alice, 17); protocol.CodeOf(err) != protocol.Busy {
		t.Errorf("%v", err)
	}
}

// TestSharesHold does what comes to mind with a semaphore and compares it with
// a count of its own: nobody has more than a share, nobody waits who could be
// served, and nothing is lost.
func TestSharesHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(1, 40).Draw(t, "capacity")
		s := New(Options{Capacity: capacity, Waiting: rapid.IntRange(0, 40).Draw(t, "waiting")})
		parties := []Party{alice, bob, carol, eve, admin}
		held := map[Party]int64{}
		waiting := map[Party][]*Ticket{}
		party := rapid.SampledFrom(parties)
		collect := func() { // places that were granted
			for who, list := range waiting {
				for len(list) > 0 {
					select {
					case <-list[0].granted:
						held[who] += list[0].n
						list = list[1:]
						continue
					default:
					}
					break
				}
				waiting[who] = list
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				who := party.Draw(t, "who")
				if ticket, err := s.Enter(who, 1); err == nil && ticket.granted == nil {
					held[who]++
				} else if err == nil {
					waiting[who] = append(waiting[who], ticket)
				}
			},
			"release": func(t *rapid.T) {
				who := party.Draw(t, "who")
				if held[who] > 0 {
					held[who]--
					s.Release(who, 1)
				}
			},
			"give up": func(t *rapid.T) {
				who := party.Draw(t, "who")
				if n := len(waiting[who]); n > 0 {
					at := rapid.IntRange(0, n-1).Draw(t, "which")
					if !s.leave(waiting[who][at]) {
						t.Fatal("who waits is in no queue")
					}
					waiting[who] = append(waiting[who][:at:at], waiting[who][at+1:]...)
				}
			},
			"": func(t *rapid.T) {
				collect()
				var all, ordinary int64
				spaces := map[string]int64{}
				queued := 0
				for _, who := range parties {
					n := held[who]
					all += n
					spaces[who.Space] += n
					if !who.Privileged {
						ordinary += n
					}
					if n > s.places.own(who) {
						t.Fatalf("%s has %d of %d", who.Principal, n, capacity)
					}
					queued += len(waiting[who])
					if len(waiting[who]) > 0 && s.places.lacks(who, 1) == OfNobody {
						t.Fatalf("%s waits although there is a place", who.Principal)
					}
				}
				for space, n := range spaces {
					if space != "" && n > s.places.space {
						t.Fatalf("%s has %d of %d", space, n, capacity)
					}
				}
				if all > capacity || ordinary > s.places.ordinary || all != s.Used() || queued != s.Waiting() {
					t.Fatalf("%d and %d ordinary are held of %d, %d are counted; %d wait, %d are counted", all, ordinary, capacity, s.Used(), queued, s.Waiting())
				}
			},
		})
	})
}

func TestManyAtOnceAreAllServed(t *testing.T) {
	t.Parallel()
	s := New(Options{Capacity: 3, Waiting: 1000})
	var all sync.WaitGroup
	var mu sync.Mutex
	now := 0
	for i := range 8 {
		who := Party{Principal: fmt.Sprint(i), Space: fmt.Sprint(i % 2)}
		for range 20 {
			all.Go(func() {
				if err := s.Acquire(t.Context(), who, 1); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if now++; now > 3 {
					t.Errorf("%d have a place", now)
				}
				mu.Unlock()
				mu.Lock()
				now--
				mu.Unlock()
				s.Release(who, 1)
			})
		}
	}
	all.Wait()
	if s.Used() != 0 {
		t.Errorf("%d places are lost", s.Used())
	}
}

func TestAPartyIsItsKindSpaceAndID(t *testing.T) {
	seen := map[string]protocol.Principal{}
	for _, who := range []protocol.Principal{
		{Kind: protocol.KindAgent, ID: "lamp"}, {Kind: protocol.KindOperator, ID: "lamp"}, {Kind: protocol.KindAgent, ID: "lamp", Space: "barn"},
	} {
		p := Of(&who)
		if before, there := seen[p.Principal]; there {
			t.Errorf("%+v and %+v are one party", before, who)
		}
		seen[p.Principal] = who
	}
	if p := Of(&protocol.Principal{ID: "root", Roles: []string{protocol.RoleAdministrator}}); !p.Privileged || p.Space != "" {
		t.Errorf("an administrator is %+v", p)
	}
}

func BenchmarkTryAcquire(b *testing.B) {
	s := New(Options{Capacity: 4096})
	for b.Loop() {
		if s.TryAcquire(alice, 1) == nil {
			s.Release(alice, 1)
		}
	}
}
