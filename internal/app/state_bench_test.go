package app_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// BenchmarkReport measures reports of devices, each of which waits for its
// acknowledgement before the next, beside publications of the same size that are
// kept nowhere, and such that are retained, which are stored too.
func BenchmarkReport(b *testing.B) {
	const fleet = 16
	n := bridgetest.Start(b)
	caller := n.Caller(b, "caller")
	devices := make([]*bridgetest.Raw, fleet)
	for i := range devices {
		devices[i] = n.Connect(b, fmt.Sprintf("stat-%d", i))
		must(b, caller, "agent.register", fmt.Sprintf(`{"agent_id":"stat-%d","type":"end_agent","skills":[{"skill_id":"heating-%[1]d","name":"Heating","capabilities":["off"]}]}`, i))
	}
	for _, of := range []struct {
		name, topic string
		retain      bool
	}{
		{"plain", "plain/stat-%d", false},
		{"retained", "retained/stat-%d", true},
		{"report", "aibridge/agent/stat-%d/state/reported", false},
	} {
		for _, size := range []int{1, fleet} {
			b.Run(fmt.Sprintf("%s/devices=%d", of.name, size), func(b *testing.B) {
				var count atomic.Int64
				var publishing sync.WaitGroup
				for i, d := range devices[:size] {
					publishing.Go(func() {
						topic := fmt.Sprintf(of.topic, i)
						for k := count.Add(1); k <= int64(b.N); k = count.Add(1) {
							payload := fmt.Appendf(nil, `{"heating-%d":{"celsius":%d,"battery":87,"mode":"auto"}}`, i, k)
							ack, err := d.Publish(b.Context(), &paho.Publish{Topic: topic, QoS: 1, Retain: of.retain, Payload: payload})
							if err != nil || ack.ReasonCode > 0x10 {
								b.Errorf("%s: %v, %v", topic, err, ack)
								return
							}
						}
					})
				}
				publishing.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
			})
		}
	}
}
