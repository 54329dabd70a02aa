package broker

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// BenchmarkSleepingSessions measures what a kept session without a client takes in
// memory, with one subscription to a topic of its own and nothing that waits.
func BenchmarkSleepingSessions(b *testing.B) {
	const sessions = 100_000
	for b.Loop() {
		server := brokerOn(b, new(MemoryJournal))
		t := newTurn(server).begin()
		before := heapInUse()
		for i := range sessions {
			id := fmt.Sprintf("device-%06d", i)
			value, err := json.Marshal(&storedSession{
				Principal: &protocol.Principal{ID: id, Kind: protocol.KindAgent}, Serial: uint64(i + 1), Expiry: forever,
				Subs: []storedSubscription{{Filter: "devices/" + id + "/commands", QoS: 1}},
			})
			if err != nil {
				b.Fatal(err)
			}
			r := &restorer{b: server, sessions: map[uint64]*restoredSession{}}
			if err := r.session(keyOfSession(SessionID{protocol.DefaultSpace, id}), value); err != nil {
				b.Fatal(err)
			}
			for _, s := range r.sessions {
				t.adopt(s.session)
			}
		}
		b.ReportMetric(float64(heapInUse()-before)/sessions, "B/session")
		runtime.KeepAlive(server)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
