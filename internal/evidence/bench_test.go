package evidence

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkClaim is the twin of BenchmarkClaim in internal/store.
func BenchmarkClaim(b *testing.B) {
	for _, callers := range []int{1, 2, 16, 1000} {
		for _, always := range []bool{false, true} {
			b.Run(fmt.Sprintf("callers=%d/sync=%t", callers, always), func(b *testing.B) {
				l, err := Open(b.TempDir(), Options{SyncAlways: always, MaxClaims: 16 << 30})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = l.Close() }()
				c := claim(1, time.Minute)
				b.ReportAllocs()
				if callers == 1 {
					for b.Loop() {
						if err := l.Claim(context.Background(), c); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				var failed atomic.Bool
				b.SetParallelism(max(callers/runtime.GOMAXPROCS(0), 1))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if l.Claim(context.Background(), c) != nil {
							failed.Store(true)
						}
					}
				})
				if failed.Load() {
					b.Fatal("a claim failed")
				}
			})
		}
	}
}

// BenchmarkEnqueue has readers claim for 16 commands a turn, as those of
// connections do. What they are told takes a microsecond, as beginning a
// command does at least.
func BenchmarkEnqueue(b *testing.B) {
	for _, readers := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			l, err := Open(b.TempDir(), Options{MaxClaims: 16 << 30})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			var all, told sync.WaitGroup
			done := func(error) {
				for began := time.Now(); time.Since(began) < time.Microsecond; {
				}
				told.Done()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for r := range readers {
				c := claim(1, time.Minute)
				c.Principal = fmt.Sprint("operator/", r)
				all.Go(func() {
					for range b.N / readers / 16 {
						told.Add(16)
						for range 16 {
							l.Enqueue(c, done)
						}
						l.Flush()
					}
				})
			}
			all.Wait()
			told.Wait()
		})
	}
}

// BenchmarkOpen reads what a minute of 20 000 claims a second leaves.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	l, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	c := claim(1, 10*time.Minute)
	for range 60 * 20_000 {
		if err := l.Claim(context.Background(), c); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l, err := Open(dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
