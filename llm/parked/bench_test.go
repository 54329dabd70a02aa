package parked_test

import (
	"encoding/json"
	"math"
	"runtime"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/parked"
)

func newRoomyWorld(b *testing.B) *world {
	return newWorld(b, func(p *parked.Options, a *approval.Options) {
		p.MaxOwnBytes, p.MaxOpenBytes, a.MaxOwn, a.MaxOpen = math.MaxInt, math.MaxInt, 1<<30, 1<<30
	})
}

// BenchmarkWaiting parks conversations, and reports for each one its memory, the
// size of its two stored records, and its goroutines.
func BenchmarkWaiting(b *testing.B) {
	w := newRoomyWorld(b)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	for b.Loop() {
		if turn, _, err := w.ask(carol); err != nil || !turn.Parked {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	stored := 0
	for _, r := range w.tasks.All() {
		text, _ := json.Marshal(r)
		stored += len(text)
	}
	for _, r := range w.approvals.All() {
		text, _ := json.Marshal(r)
		stored += len(text)
	}
	heap := float64(after.HeapAlloc-before.HeapAlloc) / float64(b.N)
	b.ReportMetric(heap, "heap-B/op")
	b.ReportMetric(float64(stored)/float64(b.N), "stored-B/op")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
	runtime.KeepAlive(w)
}

// BenchmarkParkingAndResuming takes a call from its proposal by a model over the
// decision to the model's last word, with 1000 others that wait. Besides the time it
// tells the processor time, of all threads.
func BenchmarkParkingAndResuming(b *testing.B) {
	w := newRoomyWorld(b)
	for range 1000 {
		if _, _, err := w.ask(carol); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	before := processorTime()
	for b.Loop() {
		turn, place, err := w.ask(bob)
		if err != nil || !turn.Parked {
			b.Fatal(err)
		}
		waits := place.Waiting()
		r, _, _ := w.approvals.Get(waits.Approval)
		shown, err := w.shown(r.ID)
		if err != nil {
			b.Fatal(err)
		}
		if err := w.decide(alice, shown, "approve", ""); err != nil {
			b.Fatal(err)
		}
		eventually.Holds(b, "the task has ended", func() bool {
			t, _, ok := w.tasks.Get(string(waits.Task))
			runtime.Gosched()
			return ok && t.State.Over()
		})
	}
	b.ReportMetric(float64((processorTime()-before).Microseconds())/1000/float64(b.N), "processor-ms/op")
}
