package cap

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// A crier publishes events and the last values of data. The store's view must
// not wait for that, so it happens on its own: events in order, a value
// whenever it changed, several changes of the same at once as one.
type crier struct {
	mu     sync.Mutex
	begun  bool
	events []announcement
	lost   int
	stale  []dataRef
	isOld  map[dataRef]bool // what stale holds
	seq    uint64
	wake   chan struct{}
}

// An announcement is an event on its way to a Cap's event topic.
type announcement struct {
	space protocol.SpaceID
	cap   protocol.CapID
	name  string
	data  any
}

// maxAnnouncements bounds the events that wait; more are dropped and counted.
const maxAnnouncements = 16384

func newCrier() *crier {
	return &crier{isOld: make(map[dataRef]bool), wake: make(chan struct{}, 1)}
}

func (c *crier) begin() {
	c.mu.Lock()
	c.begun = true
	c.mu.Unlock()
}

func (c *crier) event(space protocol.SpaceID, id protocol.CapID, name string, data any) {
	c.mu.Lock()
	switch {
	case !c.begun:
	case len(c.events) < maxAnnouncements:
		c.events = append(c.events, announcement{space, id, name, data})
	default:
		c.lost++
	}
	c.mu.Unlock()
	c.signal()
}

// value has a value published as it is by then.
func (c *crier) value(ref dataRef) {
	c.mu.Lock()
	if c.begun && !c.isOld[ref] {
		c.isOld[ref] = true
		c.stale = append(c.stale, ref)
	}
	c.mu.Unlock()
	c.signal()
}

func (c *crier) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// cry publishes until ctx ends, and then what was left.
func (s *Service) cry(ctx context.Context) {
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

// flush publishes values before events: whoever hears that a value was set
// finds it.
func (s *Service) flush() {
	c := s.crier
	c.mu.Lock()
	events, stale, lost := c.events, c.stale, c.lost
	c.events, c.stale, c.lost = nil, nil, 0
	clear(c.isOld)
	c.mu.Unlock()
	if lost > 0 {
		s.opts.Log.Warn("events of Caps dropped", "count", lost)
	}
	for _, ref := range stale {
		s.publishValue(ref)
	}
	for _, e := range events {
		s.publishEvent(e)
	}
}

// publishValue retains a value on its topic, or nothing if it is gone.
func (s *Service) publishValue(ref dataRef) {
	m := Message{Topic: s.opts.Topics.CapData(ref.cap, ref.group, ref.key), Space: ref.space, Retain: true}
	if d, revision, ok := s.opts.Data.Get(ref.tableKey()); ok {
		m.Payload = marshal(d.view(revision))
	}
	s.publish(m)
}

// withdrawLeftovers removes retained values of data that is gone: a bridge that
// died after it removed the data did not come to it. What is set meanwhile is
// published after this.
func (s *Service) withdrawLeftovers() {
	type place struct {
		topic string
		space protocol.SpaceID
	}
	var retained []place
	for topic, space := range s.opts.Retained(s.opts.Topics.CapData("+", "+", "+")) {
		retained = append(retained, place{topic, space})
	}
	known := make(map[place]bool, len(retained))
	for _, d := range s.opts.Data.All() {
		known[place{s.opts.Topics.CapData(d.Cap, d.Group, d.Key), d.Space}] = true
	}
	for _, at := range retained {
		if !known[at] {
			s.publish(Message{Topic: at.topic, Space: at.space, Retain: true})
		}
	}
}

// Announce tells an event of a Cap, in turn with those of this package. It does
// not block. Data is rendered as JSON.
func (s *Service) Announce(space protocol.SpaceID, id protocol.CapID, name string, data any) {
	s.crier.event(space, id, name, data)
}

func (s *Service) publishEvent(e announcement) {
	s.crier.seq++
	event := protocol.Event{
		Version:   protocol.Version,
		ID:        protocol.NewID(),
		Timestamp: s.opts.Now().UnixMilli(),
		Name:      e.name,
		Seq:       s.crier.seq,
		Data:      marshal(e.data),
		Metadata:  protocol.Metadata{SenderID: s.opts.BridgeID},
	}
	s.publish(Message{Topic: s.opts.Topics.CapEvent(e.cap), Space: e.space, Payload: event.Append(nil)})
}

func (s *Service) publish(m Message) {
	if err := s.opts.Publish(m); err != nil {
		s.opts.Log.Warn("message about a Cap not published", "topic", m.Topic, "error", err)
	}
}

// marshal renders plain structs, which does not fail.
func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return data
}
