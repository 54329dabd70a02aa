package main

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestReportsAcknowledgedSurviveKill kills the bridge while a device reports, and
// while somebody says what it shall be: what was acknowledged is there, and at
// most one report more of those that were on their way, and the delta on its
// topic is of that.
func TestReportsAcknowledgedSurviveKill(t *testing.T) {
	const enough = 100
	data := t.TempDir()
	bridge := startBinary(t, data, "--dev")
	device, caller := connect(t, bridge, "stat"), dial(t, bridge)
	ask(t, caller, "agent.register", `{"agent_id":"stat","type":"end_agent","skills":[{"skill_id":"meter","name":"Meter","capabilities":["off"]}]}`, nil)
	ask(t, caller, "state.desired.set", `{"agent_id":"stat","skill_id":"meter","state":{"celsius":21}}`, nil)

	var acknowledged atomic.Int64
	half, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := int64(1); ; n++ {
			token := device.Publish("aibridge/agent/stat/state/reported", 1, false, fmt.Sprintf(`{"meter":{"n":%d}}`, n))
			if !token.WaitTimeout(time.Minute) || token.Error() != nil {
				return // the bridge is dead
			}
			if acknowledged.Store(n); n == enough {
				close(half)
			}
		}
	}()
	select {
	case <-half:
	case <-ended:
		t.Fatalf("the reports end after %d", acknowledged.Load())
	}
	bridge.kill()
	<-ended

	bridge = startBinary(t, data, "--dev")
	last := acknowledged.Load()
	var got struct {
		Skills []struct {
			Desired, Reported struct {
				Version int64
				State   map[string]int64
			}
			Delta json.RawMessage
		}
	}
	ask(t, dial(t, bridge), "state.get", `{"agent_id":"stat"}`, &got)
	if len(got.Skills) != 1 {
		t.Fatalf("after the kill %+v", got)
	}
	s := got.Skills[0]
	if n := s.Reported.State["n"]; n < last || n > last+1 || s.Reported.Version != n {
		t.Errorf("%d reports are acknowledged, and version %d says %d", last, s.Reported.Version, n)
	}
	if s.Desired.State["celsius"] != 21 || string(s.Delta) != `{"celsius":21}` {
		t.Errorf("desired is %v, the delta %s", s.Desired.State, s.Delta)
	}

	delta := make(chan string, 1)
	token := connect(t, bridge, "stat").Subscribe("aibridge/agent/stat/state/delta", 1, func(_ mqtt.Client, m mqtt.Message) { delta <- string(m.Payload()) })
	if !token.WaitTimeout(time.Minute) || token.Error() != nil {
		t.Fatal(token.Error())
	}
	select {
	case d := <-delta:
		if d != `{"meter":{"celsius":21}}` {
			t.Errorf("the delta on its topic is %s", d)
		}
	case <-time.After(eventually.Patience):
		t.Error("no delta is retained")
	}
}
