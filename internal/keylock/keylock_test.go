package keylock

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestLocksOfDifferentKeysDoNotWaitForEachOther(t *testing.T) {
	var locks Locks
	a, err := locks.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := locks.Lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	if _, free := locks.Try("a"); free {
		t.Error("a lock that is held is free")
	}
	a()
	b()
	if len(locks.all) != 0 {
		t.Errorf("%d locks are left that nobody holds", len(locks.all))
	}
}

func TestALockIsHeldByOne(t *testing.T) {
	var locks Locks
	var all sync.WaitGroup
	sum := 0
	for range 100 {
		all.Go(func() {
			unlock, err := locks.Lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			sum++
			unlock()
			unlock() // counts once
		})
	}
	all.Wait()
	if sum != 100 || len(locks.all) != 0 {
		t.Errorf("%d of 100, and %d locks are left", sum, len(locks.all))
	}
}

func TestNobodyWaitsForALockLongerThanItsContext(t *testing.T) {
	var locks Locks
	unlock, err := locks.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := locks.Lock(ctx, "a"); !errors.Is(err, gone) {
		t.Errorf("it waited in vain: %v", err)
	}
	unlock()
	again, free := locks.Try("a")
	if !free {
		t.Fatal("the lock is not free")
	}
	again()
}
