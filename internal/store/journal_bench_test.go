package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/natsd"
)

func benchJournal(b *testing.B, dir string, syncAlways bool) (*Journal, func()) {
	b.Helper()
	n, err := natsd.Start(natsd.Options{Dir: dir, SyncAlways: syncAlways})
	if err != nil {
		b.Fatal(err)
	}
	s, err := Open(b.Context(), Conns{State: n.State(), Flow: n.Flow()}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	j, err := s.OpenJournal(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return j, func() {
		s.Close()
		n.Close()
	}
}

func loadNothing(b *testing.B, j *Journal) {
	b.Helper()
	if err := j.Load(b.Context(), func(string, []byte) error { return nil }, func(uint64, []byte) error { return nil }); err != nil {
		b.Fatal(err)
	}
}

// quantiles reports how long the slow ones took.
func quantiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
}

func benchWrites(b *testing.B, j *Journal, next func(i int) ([]KeyedValue, []byte)) {
	b.Helper()
	var took []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		keyed, entry := next(i)
		began := time.Now()
		if _, err := j.Write(context.Background(), keyed, entry); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	quantiles(b, took)
}

// BenchmarkJournalEntry writes one entry at a time: a message of 256 bytes
// owed to one session, or of a whole group of a thousand.
func BenchmarkJournalEntry(b *testing.B) {
	for _, size := range []int{300, 300_000} {
		bothSyncs(b, func(b *testing.B, sync bool) {
			b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
				j, stop := benchJournal(b, b.TempDir(), sync)
				defer stop()
				loadNothing(b, j)
				entry := bytes.Repeat([]byte{1}, size)
				b.SetBytes(int64(size))
				benchWrites(b, j, func(int) ([]KeyedValue, []byte) { return nil, entry })
			})
		})
	}
}

// BenchmarkJournalValues changes some of 10 000 values of 300 bytes at a
// time, beside 100 000 that do not change.
func BenchmarkJournalValues(b *testing.B) {
	for _, count := range []int{1, 100} {
		bothSyncs(b, func(b *testing.B, sync bool) {
			b.Run(fmt.Sprintf("values=%d", count), func(b *testing.B) {
				j, stop := benchJournal(b, b.TempDir(), sync)
				defer stop()
				loadNothing(b, j)
				fillValues(b, j, "cold/", 100_000)
				value := bytes.Repeat([]byte{1}, 300)
				changes := make([]KeyedValue, count)
				benchWrites(b, j, func(i int) ([]KeyedValue, []byte) {
					for k := range changes {
						changes[k] = KeyedValue{Key: fmt.Sprintf("hot/%d", (i*count+k)%10_000), Value: value}
					}
					return changes, nil
				})
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/value")
				b.ReportMetric(float64(j.values.size)/float64(j.values.live), "size/live")
			})
		})
	}
}

func fillValues(b *testing.B, j *Journal, prefix string, count int) {
	b.Helper()
	changes := make([]KeyedValue, 0, 1000)
	for i := range count {
		changes = append(changes, KeyedValue{Key: fmt.Sprintf("%s%06d", prefix, i), Value: []byte(strings.Repeat("v", 300))})
		if len(changes) == cap(changes) || i == count-1 {
			if _, err := j.Write(context.Background(), changes, nil); err != nil {
				b.Fatal(err)
			}
			changes = changes[:0]
		}
	}
}

// BenchmarkJournalLoad starts the servers and loads 100 000 sessions, as many
// retained messages of 300 bytes each, and a log of 100 000 entries.
func BenchmarkJournalLoad(b *testing.B) {
	dir := b.TempDir()
	j, stop := benchJournal(b, dir, false)
	loadNothing(b, j)
	fillValues(b, j, "s/client-", 100_000)
	fillValues(b, j, "r/home/kitchen/temperature/", 100_000)
	for range 100_000 {
		if _, err := j.Write(context.Background(), nil, bytes.Repeat([]byte{1}, 300)); err != nil {
			b.Fatal(err)
		}
	}
	stop()
	var starting, loading time.Duration
	for b.Loop() {
		began := time.Now()
		j, stop := benchJournal(b, dir, false)
		starting += time.Since(began)
		began = time.Now()
		loadNothing(b, j)
		loading += time.Since(began)
		b.StopTimer()
		stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(starting.Milliseconds())/float64(b.N), "start-ms")
	b.ReportMetric(float64(loading.Milliseconds())/float64(b.N), "load-ms")
}
