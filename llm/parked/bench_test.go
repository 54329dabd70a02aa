package parked_test

import (
	"runtime"
	"testing"

	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/parked"
)

// BenchmarkWaiting parks conversations, and tells what each one costs: its two
// records included, and in goroutines.
func BenchmarkWaiting(b *testing.B) {
	w := newWorld(b, func(p *parked.Options, a *approval.Options) {
		p.MaxOwnBytes, p.MaxOpenBytes, a.MaxOwn, a.MaxOpen = 1<<40, 1<<40, 1<<30, 1<<30
	})
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
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "heap-B/op")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
	runtime.KeepAlive(w)
}
