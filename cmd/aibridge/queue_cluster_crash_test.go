package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/internal/eventually"
)

// A crew is the workers of a queue, one at each bridge of a trio.
type crew struct {
	mu   sync.Mutex
	took [3]map[string]int // by payload, how often the worker of a bridge has it
	kept int               // messages that the worker of the second bridge has not acknowledged
}

// hire has a worker subscribe at a bridge. That of the second one acknowledges the first
// three messages alone.
func (c *crew) hire(t *testing.T, b *binary, at int) {
	t.Helper()
	c.took[at] = make(map[string]int)
	worker := connect(t, b, fmt.Sprint("worker", at), func(o *mqtt.ClientOptions) {
		o.SetAutoAckDisabled(true).SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.took[at][string(m.Payload())]++
			if at == 1 && len(c.took[at]) > 3 {
				c.kept++
				return
			}
			m.Ack()
		})
	})
	if token := worker.Subscribe("$queue/jobs", 1, nil); !token.WaitTimeout(time.Minute) || token.Error() != nil {
		t.Fatal(token.Error())
	}
}

// TestAQueueOutlivesOneOfThreeBridges kills one of three bridges whose workers share a
// queue, and to which one of two publishers is connected. What was acknowledged to a
// publisher comes to a worker that acknowledges it, and twice at most what a worker of the
// dead bridge had.
func TestAQueueOutlivesOneOfThreeBridges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bridge.yaml")
	if err := os.WriteFile(file, []byte("dev: true\nqueues:\n  - {name: jobs, topic: \"jobs/#\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trio, workers := startTrio(t, "--config", file), new(crew)
	for i, b := range trio.bridges {
		workers.hire(t, b, i)
	}
	var sent []string // acknowledged by a bridge
	publish := func(c mqtt.Client, payload string) bool {
		token := c.Publish("jobs/x", 1, false, payload)
		return token.WaitTimeout(eventually.Patience) && token.Error() == nil
	}
	safe, doomed := connect(t, trio.bridges[0], "safe"), connect(t, trio.bridges[1], "doomed")
	var there []string // acknowledged by the bridge that dies
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		for i := 0; publish(doomed, fmt.Sprint("doomed ", i)); i++ {
			there = append(there, fmt.Sprint("doomed ", i))
		}
	}()
	send := func(n int) {
		for range n {
			payload := fmt.Sprint("safe ", len(sent))
			if !publish(safe, payload) {
				t.Fatalf("%s is not acknowledged", payload)
			}
			sent = append(sent, payload)
		}
	}
	send(20)
	eventually.Holds(t, "a worker has what it does not acknowledge", func() bool {
		workers.mu.Lock()
		defer workers.mu.Unlock()
		return workers.kept >= 3
	})
	trio.bridges[1].kill()
	doomed.Disconnect(0)
	<-dead
	send(20)
	eventually.Holds(t, "the queue is empty", func() bool {
		left, told := figuresOf(t, trio.bridges[0])[`aibridge_queue_messages{queue="jobs"}`]
		return told && left == 0
	})
	workers.mu.Lock()
	defer workers.mu.Unlock()
	for _, payload := range append(sent, there...) {
		first, dead, last := workers.took[0][payload], workers.took[1][payload], workers.took[2][payload]
		if first+dead+last == 0 {
			t.Errorf("%q, which was acknowledged, came to nobody", payload)
		}
		if first+last > 1 || dead > 1 {
			t.Errorf("%q came %d and %d times to workers of bridges that live, and %d times to the other one", payload, first, last, dead)
		}
	}
	if t.Failed() {
		t.Logf("log of the first\n%s\nlog of the last\n%s", trio.bridges[0].log, trio.bridges[2].log)
	}
	t.Logf("%d messages acknowledged by the bridge that died, %d by another; its worker kept %d", len(there), len(sent), workers.kept)
}
