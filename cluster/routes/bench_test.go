package routes

import (
	"fmt"
	"runtime"
	"testing"
)

// fill announces so many filters without wildcards of each bridge.
func fill(b *testing.B, nodes, filters int) *Table {
	table := NewTable(&testKey)
	for n := range nodes {
		a := NewAnnouncer(&testKey, 1)
		for i := range filters {
			a.Add(Subscription{Space: "home", Filter: fmt.Sprintf("device/%d/%d/cmd", n, i)})
		}
		a.Add(Subscription{Space: "home", Filter: fmt.Sprintf("site/%d/#", n)})
		_, snapshot := a.Cut(true)
		for i := range snapshot {
			if err := table.Apply(fmt.Sprintf("node-%d", n), &snapshot[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	return table
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkFind looks up topics among 10 000 000 filters, and tells how many
// bytes of memory each took.
func BenchmarkFind(b *testing.B) {
	const nodes, filters = 100, 100_000
	before := heap()
	table := fill(b, nodes, filters)
	bytes := float64(heap() - before)
	topics := make([]string, 1<<14)
	for i := range topics {
		topics[i] = fmt.Sprintf("device/%d/%d/cmd", i%nodes, i*7919%filters)
	}
	var found Found
	i := 0
	b.ResetTimer()
	for b.Loop() {
		i++
		if table.Find(topics[i&(1<<14-1)], &found, "home", EverySpace); len(found.Nodes) != 1 {
			b.Fatalf("found %v", found.Nodes)
		}
	}
	b.ReportMetric(bytes/(nodes*filters), "B/filter")
	b.ReportMetric(bytes/(1<<20), "MiB")
}

// BenchmarkApply takes a filter that a bridge announces, and that it is gone.
func BenchmarkApply(b *testing.B) {
	table := fill(b, 10, 100_000)
	a := NewAnnouncer(&testKey, 2)
	_, snapshot := a.Cut(true)
	if err := table.Apply("storm", &snapshot[0]); err != nil {
		b.Fatal(err)
	}
	const each = mostInBatch
	subs := make([]Subscription, each)
	for i := range subs {
		subs[i] = Subscription{Space: "home", Filter: fmt.Sprintf("storm/%d", i)}
	}
	count := func(do func(Subscription)) {
		for _, s := range subs {
			do(s)
		}
		changes, _ := a.Cut(false)
		for i := range changes {
			if err := table.Apply("storm", &changes[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		count(a.Add)
		count(a.Remove)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*each*b.N), "ns/change")
}
