package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// BenchmarkSleepingSessions measures what a kept session without a client takes in
// memory, with one subscription to a topic of its own and nothing that waits: of a
// journal that was restored, and of clients that have left.
func BenchmarkSleepingSessions(b *testing.B) {
	b.Run("restored", restoredSessions)
	b.Run("left", leftSessions)
}

func restoredSessions(b *testing.B) {
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
				s.finish()
				t.adopt(s.session)
			}
		}
		b.ReportMetric(float64(heapInUse()-before)/sessions, "B/session")
		runtime.KeepAlive(server)
	}
}

func leftSessions(b *testing.B) {
	const sessions = 5_000
	for b.Loop() {
		n := startNode(b, 2, func(o *Options) {
			o.Journal, o.Presence = forgetful{new(MemoryJournal)}, nil
			o.Authenticate = func(_ context.Context, shown Credentials) (*protocol.Principal, error) {
				return &protocol.Principal{ID: shown.Username, Kind: protocol.KindAgent, Space: protocol.DefaultSpace}, nil
			}
		})
		before := heapInUse()
		for i := range sessions {
			id := fmt.Sprintf("device-%06d", i)
			p := n.connect(packet.V5, id, kept, as(id))
			p.subscribe("devices/"+id+"/commands", 1)
			_ = p.nc.Close()
		}
		eventually.Holds(b, "all clients have left", func() bool { return n.connected.Load() == 0 })
		b.ReportMetric(float64(heapInUse()-before)/sessions, "B/session")
		n.stop()
	}
}

// A forgetful journal keeps nothing.
type forgetful struct{ *MemoryJournal }

func (forgetful) Write(context.Context, []KeyedValue, []byte) (uint64, error) { return 0, nil }

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
