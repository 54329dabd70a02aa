package scene

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// A crier publishes events. The store's view must not wait for that, so it
// happens on its own, in order.
type crier struct {
	mu     sync.Mutex
	begun  bool
	events []announcement
	lost   int
	seq    uint64
	wake   chan struct{}
}

// An announcement is an event on its way to a scene's topic.
type announcement struct {
	space protocol.SpaceID
	scene id
	name  string
	data  Event
}

// maxAnnouncements bounds the events that wait; more are dropped and counted.
const maxAnnouncements = 16384

func newCrier() *crier { return &crier{wake: make(chan struct{}, 1)} }

// begin lets events through: while the table is loaded nothing happens, it
// only becomes known.
func (c *crier) begin() {
	c.mu.Lock()
	c.begun = true
	c.mu.Unlock()
}

func (c *crier) event(space protocol.SpaceID, scene id, name string, data Event) {
	c.mu.Lock()
	switch {
	case !c.begun:
	case len(c.events) < maxAnnouncements:
		c.events = append(c.events, announcement{space, scene, name, data})
	default:
		c.lost++
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// cry publishes until ctx ends, and then what was left.
func (s *Service) cry(ctx context.Context) {
	s.withdrawLeftovers()
	for {
		select {
		case <-s.crier.wake:
			s.flush()
		case <-ctx.Done():
			s.flush()
			return
		}
	}
}

func (s *Service) flush() {
	c := s.crier
	c.mu.Lock()
	events, lost := c.events, c.lost
	c.events, c.lost = nil, 0
	c.mu.Unlock()
	if lost > 0 {
		s.opts.Log.Warn("events of scenes dropped", "count", lost)
	}
	for _, e := range events {
		s.publishEvent(e)
	}
}

// publishEvent publishes an event and retains it as the state of the scene.
// With the scene ends what is retained.
func (s *Service) publishEvent(e announcement) {
	data, err := json.Marshal(e.data)
	if err != nil { // an Event is a plain struct
		s.opts.Log.Error("event of a scene not rendered", "event", e.name, "error", err)
		return
	}
	s.crier.seq++
	event := protocol.Event{
		Version:   protocol.Version,
		ID:        protocol.NewID(),
		Timestamp: s.opts.Now().UnixMilli(),
		Name:      e.name,
		Seq:       s.crier.seq,
		Data:      data,
		Metadata:  protocol.Metadata{SenderID: s.opts.BridgeID},
	}
	topic := s.opts.Topics.SceneEvent(e.scene.scene, e.scene.cap)
	ended := e.name == cancelledEvent
	s.publish(Message{Topic: topic, Space: e.space, Payload: event.Append(nil), Retain: !ended})
	if ended {
		s.publish(Message{Topic: topic, Space: e.space, Retain: true})
	}
}

// withdrawLeftovers removes what is retained of scenes that are gone: a bridge
// that died when a scene had ended did not come to it. What is declared
// meanwhile is told after this.
func (s *Service) withdrawLeftovers() {
	type place struct {
		topic string
		space protocol.SpaceID
	}
	var retained []place
	for topic, space := range s.opts.Retained(s.opts.Topics.SceneEvent("+", "+")) {
		retained = append(retained, place{topic, space})
	}
	known := make(map[place]bool, len(retained))
	for _, scene := range s.opts.Scenes.All() {
		known[place{s.opts.Topics.SceneEvent(scene.Type, scene.Cap), scene.Space}] = true
	}
	for _, at := range retained {
		if !known[at] {
			s.publish(Message{Topic: at.topic, Space: at.space, Retain: true})
		}
	}
}

func (s *Service) publish(m Message) {
	if err := s.opts.Publish(m); err != nil {
		s.opts.Log.Warn("message about a scene not published", "topic", m.Topic, "error", err)
	}
}
