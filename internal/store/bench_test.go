package store

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/natsd"
)

// skill is about what a registered skill takes: some 500 bytes.
type skill struct {
	ID           string            `json:"skill_id"`
	Name         string            `json:"name"`
	Space        string            `json:"space_id"`
	Agent        string            `json:"agent_id"`
	Version      string            `json:"version"`
	Description  string            `json:"description"`
	Endpoints    []string          `json:"endpoints"`
	Capabilities []capability      `json:"capabilities"`
	Labels       map[string]string `json:"labels"`
}

type capability struct {
	ID         string `json:"capability_id"`
	Name       string `json:"name"`
	Idempotent bool   `json:"idempotent"`
	Risk       string `json:"risk"`
}

func exampleSkill(n int) *skill {
	id := fmt.Sprintf("temperature_converter_%06d", n)
	return &skill{
		ID:          id,
		Name:        "Temperature converter " + strconv.Itoa(n),
		Space:       "home_space_001",
		Agent:       fmt.Sprintf("agent_%05d", n/10),
		Version:     "1.4.2",
		Description: "Converts temperatures between the scales in use, for thermostats that know but one of them.",
		Endpoints:   []string{"http://192.168.1.100:9010", "ws://192.168.1.100:9011"},
		Capabilities: []capability{
			{ID: "celsius_to_fahrenheit", Name: "Celsius to Fahrenheit", Idempotent: true, Risk: "low"},
			{ID: "fahrenheit_to_celsius", Name: "Fahrenheit to Celsius", Idempotent: true, Risk: "low"},
		},
		Labels: map[string]string{"room": "kitchen"},
	}
}

func skillKey(n int) string { return fmt.Sprintf("home_space_001/temperature_converter_%06d", n) }

func benchStore(b *testing.B, syncAlways bool) (*Store, *Table[skill]) {
	b.Helper()
	n, err := natsd.Start(natsd.Options{Dir: b.TempDir(), SyncAlways: syncAlways, Log: testLog(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(n.Close)
	conns := Conns{State: n.State(), Flow: n.Flow()}
	if !syncAlways {
		conns.State = n.Flow()
	}
	s, err := Open(b.Context(), conns, Options{Log: testLog(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	skills := NewTable[skill](s, "skill")
	load(b, s)
	return s, skills
}

func bothSyncs(b *testing.B, f func(b *testing.B, syncAlways bool)) {
	for _, sync := range []bool{false, true} {
		b.Run(fmt.Sprintf("sync=%t", sync), func(b *testing.B) { f(b, sync) })
	}
}

func BenchmarkPut(b *testing.B) {
	bothSyncs(b, func(b *testing.B, sync bool) {
		_, skills := benchStore(b, sync)
		n := 0
		for b.Loop() {
			if _, err := skills.Put(context.Background(), skillKey(n%1000), exampleSkill(n)); err != nil {
				b.Fatal(err)
			}
			n++
		}
	})
}

func BenchmarkPutParallel(b *testing.B) {
	bothSyncs(b, func(b *testing.B, sync bool) {
		_, skills := benchStore(b, sync)
		var n atomic.Int64
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				i := int(n.Add(1))
				if _, err := skills.Put(context.Background(), skillKey(i%1000), exampleSkill(i)); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func BenchmarkUpdate(b *testing.B) {
	bothSyncs(b, func(b *testing.B, sync bool) {
		_, skills := benchStore(b, sync)
		rev, err := skills.Create(context.Background(), "k", exampleSkill(0))
		for b.Loop() {
			if err != nil {
				b.Fatal(err)
			}
			rev, err = skills.Update(context.Background(), "k", exampleSkill(1), rev)
		}
	})
}

func BenchmarkAtomic(b *testing.B) {
	for _, size := range []int{2, 10, 100} {
		b.Run(fmt.Sprintf("ops=%d", size), func(b *testing.B) {
			bothSyncs(b, func(b *testing.B, sync bool) {
				s, skills := benchStore(b, sync)
				ops := make([]Op, size)
				for i := range ops {
					ops[i] = skills.PutOp(skillKey(i), exampleSkill(i), 0)
				}
				for b.Loop() {
					if err := s.Atomic(context.Background(), ops...); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, writer := range []bool{false, true} {
		b.Run(fmt.Sprintf("writer=%t", writer), func(b *testing.B) {
			s, skills := benchStore(b, false)
			keys := make([]string, 10000)
			var ops []Op
			for i := range keys {
				keys[i] = skillKey(i)
				ops = append(ops, skills.PutOp(keys[i], exampleSkill(i), 0))
				if len(ops) == maxBatch {
					if err := s.Atomic(b.Context(), ops...); err != nil {
						b.Fatal(err)
					}
					ops = ops[:0]
				}
			}
			if writer {
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan struct{})
				go func() {
					defer close(done)
					for i := 0; ctx.Err() == nil; i++ {
						_, _ = skills.Put(ctx, keys[i%len(keys)], exampleSkill(i))
					}
				}()
				defer func() { cancel(); <-done }()
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, _, ok := skills.Get(keys[i%len(keys)]); !ok {
						b.Error("missing")
						return
					}
				}
			})
		})
	}
}

func BenchmarkClaim(b *testing.B) {
	for _, callers := range []int{1, 1000} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			bothSyncs(b, func(b *testing.B, sync bool) {
				s, _ := benchStore(b, sync)
				var n atomic.Int64
				b.ReportAllocs()
				b.SetParallelism(callers / runtime.GOMAXPROCS(0))
				if callers == 1 {
					for b.Loop() {
						if err := s.Claims().Claim(context.Background(), claim(int(n.Add(1)), time.Minute)); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := s.Claims().Claim(context.Background(), claim(int(n.Add(1)), time.Minute)); err != nil {
							b.Error(err)
						}
					}
				})
			})
		})
	}
}

func BenchmarkOpenEmpty(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		n, err := natsd.Start(natsd.Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		s, err := Open(b.Context(), Conns{State: n.State(), Flow: n.Flow()}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		NewTable[skill](s, "skill")
		if err := s.Load(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		n.Close()
		b.StartTimer()
	}
}

// BenchmarkLoad loads a registry of 100 000 skills, and tells how long each
// took and what they take in memory.
func BenchmarkLoad(b *testing.B) {
	const count = 100_000
	dir := b.TempDir()
	n, err := natsd.Start(natsd.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	s, err := Open(b.Context(), Conns{State: n.State(), Flow: n.Flow()}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	skills := NewTable[skill](s, "skill")
	load(b, s)
	var ops []Op
	for i := range count {
		ops = append(ops, skills.PutOp(skillKey(i), exampleSkill(i), 0))
		if len(ops) == maxBatch {
			if err := s.Atomic(b.Context(), ops...); err != nil {
				b.Fatal(err)
			}
			ops = ops[:0]
		}
	}
	bytes := 0
	for i := range count / 1000 {
		bytes += len(skills.PutOp(skillKey(i), exampleSkill(i), 0).data) * 1000
	}
	s.Close()
	n.Close()
	s, skills, ops = nil, nil, nil

	before := heapInUse()
	var starting, loading time.Duration
	var after uint64
	for b.Loop() {
		began := time.Now()
		n, err := natsd.Start(natsd.Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		s, err := Open(b.Context(), Conns{State: n.State(), Flow: n.Flow()}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		skills := NewTable[skill](s, "skill")
		started := time.Now()
		if err := s.Load(b.Context()); err != nil {
			b.Fatal(err)
		}
		starting += started.Sub(began)
		loading += time.Since(started)
		b.StopTimer()
		if skills.Len() != count {
			b.Fatalf("%d skills", skills.Len())
		}
		after = heapInUse()
		runtime.KeepAlive(skills)
		s.Close()
		n.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(starting.Milliseconds())/float64(b.N), "start-ms")
	b.ReportMetric(float64(loading.Milliseconds())/float64(b.N), "load-ms")
	b.ReportMetric(float64(after-before)/(1<<20), "heap-MB")
	b.ReportMetric(float64(bytes)/count, "B/skill")
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
