package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestQueuesSurviveKill kills the bridge when it has acknowledged messages of a queue,
// and again when a worker has them and has acknowledged some: those that are left come.
func TestQueuesSurviveKill(t *testing.T) {
	t.Parallel()
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "bridge.yaml")
	if err := os.WriteFile(file, []byte("dev: true\nqueues:\n  - {name: jobs, topic: \"jobs/#\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(token mqtt.Token) {
		t.Helper()
		if !token.WaitTimeout(time.Minute) || token.Error() != nil {
			t.Fatal(token.Error())
		}
	}
	const messages = 20
	bridge := startBinary(t, data, "--config", file)
	speaker := connect(t, bridge, "speaker")
	for i := range messages {
		do(speaker.Publish("jobs/x", 1, false, fmt.Sprint(i)))
	}
	bridge.kill()
	done := make(map[string]bool)
	for _, most := range []int{5, messages} {
		bridge = startBinary(t, data, "--config", file)
		got := make(chan mqtt.Message, messages)
		worker := connect(t, bridge, "worker", func(o *mqtt.ClientOptions) {
			o.SetAutoAckDisabled(true).SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) { got <- m })
		})
		do(worker.Subscribe("$queue/jobs", 1, nil))
		for n := 0; n < most && len(done) < messages; {
			select {
			case m := <-got:
				m.Ack()
				if done[string(m.Payload())] = true; most == messages {
					break
				}
				n++
			case <-time.After(eventually.Patience):
				t.Fatalf("only %v came", done)
			}
		}
		bridge.kill()
	}
	if len(done) != messages {
		t.Errorf("only %v came", done)
	}
}
