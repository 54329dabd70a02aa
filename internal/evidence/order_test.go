package evidence

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestEachReaderIsToldInItsOrder has readers enqueue and flush side by side, as
// those of connections do, and claims that wait besides. What a reader enqueued
// goes on in the order it was enqueued.
func TestEachReaderIsToldInItsOrder(t *testing.T) {
	for _, readers := range []int{1, 2, 4} {
		for _, sync := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d readers, sync %t", readers, sync), func(t *testing.T) {
				l := open(t, t.TempDir(), Options{SyncAlways: sync})
				inOrder(t, l, readers)
			})
		}
	}
}

func inOrder(t *testing.T, l *Log, readers int) {
	const turns, most = 300, 16
	var all, told sync.WaitGroup
	late := make([]atomic.Int64, readers)
	for r := range readers {
		next := 0
		last := new(atomic.Int64)
		last.Store(-1)
		all.Go(func() {
			for turn := range turns {
				for range 1 + (turn+r)%most {
					at := int64(next)
					next++
					told.Add(1)
					l.Enqueue(claim(r*1_000_000+next, time.Minute), func(err error) {
						defer told.Done()
						if err != nil {
							t.Error(err)
						}
						runtime.Gosched() // a command begins
						if last.Swap(at) != at-1 {
							late[r].Add(1)
						}
					})
				}
				l.Flush()
				if turn%20 == 0 {
					mustClaim(t, l, claim(r, time.Minute))
				}
			}
		})
	}
	all.Wait()
	told.Wait()
	for r := range late {
		if n := late[r].Load(); n > 0 {
			t.Errorf("reader %d: %d of its claims went on out of order", r, n)
		}
	}
}

// TestWhoIsToldMayClaim has what is told claim again: nobody waits for itself.
func TestWhoIsToldMayClaim(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Options{})
	ended := make(chan error, 2)
	l.Enqueue(claim(1, time.Minute), func(error) {
		ended <- l.Claim(t.Context(), claim(2, time.Minute))
		l.Enqueue(claim(3, time.Minute), func(err error) { ended <- err })
		l.Flush()
	})
	l.Flush()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
