package main

import (
	numbers "encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestMessagesAcknowledgedUnderLoadSurviveKill kills the bridge in the middle
// of a stream of messages to two kept sessions, one connected and one away:
// whatever was acknowledged to a publisher reaches both, in order.
func TestMessagesAcknowledgedUnderLoadSurviveKill(t *testing.T) {
	const publishers, enough, most = 4, 2000, 10_000 // most is well below what is kept for who is away
	data := t.TempDir()
	bridge := startBinary(t, data, "--dev")

	here, away := newListener("here"), newListener("away")
	here.connect(t, bridge)
	away.connect(t, bridge)
	away.disconnect()

	var acknowledged [publishers]uint32 // number of the last message of each
	var all atomic.Int64
	var publishing sync.WaitGroup
	half := make(chan struct{})
	for p := range acknowledged {
		c := connect(t, bridge, fmt.Sprintf("publisher-%d", p))
		publishing.Go(func() {
			for n := uint32(1); n <= most; n++ {
				token := c.Publish(fmt.Sprintf("load/%d", p), 1, false, numbers.BigEndian.AppendUint32(nil, n))
				if !token.WaitTimeout(time.Minute) || token.Error() != nil {
					return // the bridge is dead
				}
				acknowledged[p] = n
				if all.Add(1) == enough {
					close(half)
				}
			}
		})
	}
	select {
	case <-half:
	case <-time.After(eventually.Patience):
		t.Fatal("the messages do not flow")
	}
	bridge.kill()
	publishing.Wait()

	bridge = startBinary(t, data, "--dev")
	for _, l := range []*listener{here, away} {
		l.connect(t, bridge)
		for p, last := range acknowledged {
			l.await(t, fmt.Sprintf("load/%d", p), last)
		}
		l.disconnect()
	}
}

// connect connects a client that does not come back by itself.
func connect(t *testing.T, b *binary, id string, change ...func(*mqtt.ClientOptions)) mqtt.Client {
	t.Helper()
	o := mqtt.NewClientOptions().AddBroker("tcp://" + b.addresses.MQTT).SetClientID(id).SetAutoReconnect(false).SetOrderMatters(true)
	for _, f := range change {
		f(o)
	}
	c := mqtt.NewClient(o)
	if token := c.Connect(); !token.WaitTimeout(time.Minute) || token.Error() != nil {
		t.Fatalf("%s does not connect: %v", id, token.Error())
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c
}

// A listener has a kept session and notes what it gets by topic.
type listener struct {
	id     string
	client mqtt.Client

	mu      sync.Mutex
	news    chan struct{}
	last    map[string]uint32
	trouble string
}

func newListener(id string) *listener {
	return &listener{id: id, news: make(chan struct{}, 1), last: make(map[string]uint32)}
}

func (l *listener) connect(t *testing.T, b *binary) {
	t.Helper()
	l.client = connect(t, b, l.id, func(o *mqtt.ClientOptions) {
		o.SetCleanSession(false).SetDefaultPublishHandler(l.hear)
	})
	if token := l.client.Subscribe("load/+", 1, nil); !token.WaitTimeout(time.Minute) || token.Error() != nil {
		t.Fatalf("%s does not subscribe: %v", l.id, token.Error())
	}
}

func (l *listener) disconnect() { l.client.Disconnect(0) }

// hear takes a message: the next of its topic, or one that came before.
func (l *listener) hear(_ mqtt.Client, m mqtt.Message) {
	n := numbers.BigEndian.Uint32(m.Payload())
	l.mu.Lock()
	if before := l.last[m.Topic()]; n > before+1 {
		l.trouble = fmt.Sprintf("after message %d of %s comes %d", before, m.Topic(), n)
	} else if n > before {
		l.last[m.Topic()] = n
	}
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// await waits until the listener has the message of a topic with a number and
// all before it.
func (l *listener) await(t *testing.T, topic string, n uint32) {
	t.Helper()
	deadline := time.After(eventually.Patience)
	for {
		l.mu.Lock()
		have, trouble := l.last[topic], l.trouble
		l.mu.Unlock()
		if trouble != "" {
			t.Fatalf("%s: %s", l.id, trouble)
		}
		if have >= n {
			return
		}
		select {
		case <-l.news:
		case <-deadline:
			t.Fatalf("%s has %d of %d messages of %s", l.id, have, n, topic)
		}
	}
}
