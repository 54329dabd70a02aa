package webdav

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// TestNoSpaceHasAllLocks has the principals of one space take as many as they may,
// which leaves room for those of others.
func TestNoSpaceHasAllLocks(t *testing.T) {
	s := newLocks(&Options{Locks: recordstest.New[Lock](), Now: time.Now})
	take := func(space, id, root string) error {
		_, _, err := s.take(t.Context(), member(space, id), Lock{Root: root}, time.Hour)
		return err
	}
	var refused error
	for n := 0; refused == nil && n <= maxLocks; n++ {
		refused = take("red", fmt.Sprint("p", n/maxLocksOfParty), fmt.Sprint("g/", n))
	}
	if protocol.CodeOf(refused) != protocol.Busy || len(s.byToken) != maxLocksOfSpace {
		t.Errorf("%d locks, %v", len(s.byToken), refused)
	}
	if err := take("blue", "other", "g/0"); err != nil {
		t.Error(err)
	}
}

func member(space, id string) *protocol.Principal {
	return &protocol.Principal{ID: id, Kind: protocol.KindAgent, Space: protocol.SpaceID(space)}
}

// TestOneOfManyBridgesMakesALock has two bridges that follow one table lock a folder, and
// files in it, at the same moment: one lock counts, and none is left of the others.
func TestOneOfManyBridgesMakesALock(t *testing.T) {
	table := recordstest.New[Lock]()
	table.Yield()
	bridges := [2]*locks{}
	for i := range bridges {
		bridges[i] = newLocks(&Options{Locks: table, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	}
	for round := range 100 {
		folder := fmt.Sprint("g/", round)
		var made atomic.Int32
		var asking sync.WaitGroup
		for n := range 6 {
			l := Lock{Root: folder, Deep: true}
			if n%3 == 2 {
				l = Lock{Root: folder + "/file"}
			}
			asking.Go(func() {
				held, inTheWay, err := bridges[n%2].take(t.Context(), member("red", fmt.Sprint("p", n)), l, time.Hour)
				switch {
				case err != nil:
					t.Error(err)
				case len(inTheWay) == 0 && held.token == "":
					t.Error("a lock without a token")
				case len(inTheWay) == 0:
					made.Add(1)
				}
			})
		}
		asking.Wait()
		if n := made.Load(); n != 1 || table.Len() != round+1 {
			t.Fatalf("round %d: %d locks are made, %d stored", round, n, table.Len())
		}
	}
}

// TestALockThatNobodyHasIsTakenBack has the store confirm no lock, though it keeps it. Who
// wanted it may lock again at once, and other bridges hear of it once it is gone.
func TestALockThatNobodyHasIsTakenBack(t *testing.T) {
	table := &forgetful{Memory: recordstest.New[Lock]()}
	now := time.Now()
	o := &Options{Locks: table, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	here, there := newLocks(o), newLocks(o)
	take := func(at *locks) (inTheWay []string, err error) {
		_, inTheWay, err = at.take(t.Context(), member("red", "p"), Lock{Root: "g/f"}, time.Hour)
		return inTheWay, err
	}
	table.silent = true
	if _, err := take(here); !errors.Is(err, protocol.ErrUnconfirmed) {
		t.Fatal(err)
	}
	table.silent = false
	if inTheWay, err := take(there); err != nil || len(inTheWay) != 1 {
		t.Fatalf("elsewhere it is not in the way: %v", err)
	}
	here.retract(t.Context())
	if inTheWay, err := take(there); err != nil || len(inTheWay) != 0 || table.Len() != 1 {
		t.Errorf("%v, %v, %d stored", inTheWay, err, table.Len())
	}
	if len(here.untold) != 0 {
		t.Errorf("still to be removed: %v", here.untold)
	}
}

// A forgetful table keeps records whose makers it does not tell so.
type forgetful struct {
	*recordstest.Memory[Lock]
	silent bool
}

func (f *forgetful) Create(ctx context.Context, key string, l *Lock) (uint64, error) {
	revision, err := f.Memory.Create(ctx, key, l)
	if f.silent && err == nil {
		return 0, protocol.Wrap(protocol.StoreUnavailable, protocol.ErrUnconfirmed, "the store did not confirm the write")
	}
	return revision, err
}

// TestLocksWhoseTimeIsOverAreForgotten prolongs one of two locks at another bridge.
func TestLocksWhoseTimeIsOverAreForgotten(t *testing.T) {
	table, now := recordstest.New[Lock](), time.Now()
	o := &Options{Locks: table, Now: func() time.Time { return now }}
	here, there := newLocks(o), newLocks(o)
	who := member("red", "p")
	var tokens []string
	for _, root := range []string{"g/a", "g/b"} {
		l, _, err := here.take(t.Context(), who, Lock{Root: root}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, l.token)
	}
	if _, ok, err := there.refresh(t.Context(), who, "g/b", tokens[1], time.Hour); !ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	now = now.Add(2 * time.Minute)
	if _, ok, err := there.refresh(t.Context(), who, "g/a", tokens[0], time.Hour); ok || err != nil {
		t.Errorf("a lock whose time is over is prolonged: %v", err)
	}
	here.expire(t.Context())
	if _, _, ok := table.Get(tokens[0][len(tokenPrefix):]); ok || table.Len() != 1 {
		t.Errorf("%d locks are left", table.Len())
	}
	if ok, err := here.release(t.Context(), who, "g/b", tokens[1]); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}
