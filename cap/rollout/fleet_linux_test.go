package rollout

import (
	"fmt"
	"os"
	"runtime"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// BenchmarkAFleet rolls out, with the bridge's own store, to devices of which one in
// twenty fails: it stops by itself each time that too many have, and is resumed. The
// memory is that of the whole process: NATS, the tables of the store, and a map entry
// for each device and each request beside the rollout.
func BenchmarkAFleet(b *testing.B) {
	for _, fleet := range []int{10_000, 100_000} {
		b.Run(strconv.Itoa(fleet), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				rollToAFleet(b, fleet)
			}
		})
	}
}

func rollToAFleet(b *testing.B, fleet int) {
	w := newStoredWorld(b, fleet).boot()
	w.field.behave = func(agent protocol.AgentID, _ int) ask.Notice {
		if n, err := strconv.Atoi(strings.TrimPrefix(string(agent), "device-")); err != nil || n%20 == 0 {
			return broken
		}
		return answered
	}
	runtime.GC()
	began, used, usual := time.Now(), processorTime(b), heapBytes()
	highest, most := sampled()
	b.StartTimer()
	id := w.start(Plan{Abort: []Abort{{On: "failed", Percent: 3, After: fleet / 10}}})
	var v View
	for stops := 0; v.Rollout == nil || !v.ended(); {
		before := v.Counts
		eventually.Holds(b, "the fleet is reached", func() bool {
			v, _ = w.engine.Get(id)
			return v.ended() || v.Status == Aborted || v.Counts.ended() > before.ended()
		}, &v.Counts)
		if v.Status != Aborted {
			continue
		}
		if stops++; stops > fleet {
			b.Fatal("it stops for ever")
		}
		if _, err := w.engine.Resume(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(fleet), "processor-µs/member")
	b.ReportMetric(time.Since(began).Seconds(), "s")
	b.ReportMetric(float64(highest()-usual)/(1<<20), "heap-MiB-more")
	b.ReportMetric(float64(most()), "goroutines")
	b.ReportMetric(resident(b), "peak-MiB")
	if inWords(v.Counts) != fmt.Sprintf("succeeded %d, failed %d", fleet-fleet/20, fleet/20) {
		b.Errorf("it ended with %s", inWords(v.Counts))
	}
	if n, once := w.field.total(); n != fleet || !once {
		b.Errorf("%d invocations, each once: %v", n, once)
	}
	w.crash()
}

// sampled watches the heap and the goroutines until their highest values are asked
// for.
func sampled() (heap func() uint64, goroutines func() int) {
	stop, done := make(chan struct{}), make(chan struct{})
	var highest uint64
	most := 0
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			highest, most = max(highest, heapBytes()), max(most, runtime.NumGoroutine())
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return func() uint64 { close(stop); <-done; return highest }, func() int { return most }
}

func heapBytes() uint64 {
	s := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	runtimemetrics.Read(s)
	return s[0].Value.Uint64()
}

// processorTime is the time that the process has used of all processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the most memory that the process has had, in MiB.
func resident(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}
