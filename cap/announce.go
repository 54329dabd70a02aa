package cap

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/internal/announce"
	"github.com/aibridge/aibridge/protocol"
)

// An announcement is an event on its way to a Cap's event topic.
type announcement struct {
	space protocol.SpaceID
	cap   protocol.CapID
	name  string
	data  any
	here  bool // other bridges publish it themselves, as they see the change
}

// maxAnnouncements bounds the events that wait.
const maxAnnouncements = 16384

// announce publishes events and the last values of data until ctx ends.
func (s *Service) announce(ctx context.Context) {
	s.news.Run(ctx, announce.Publisher[announcement, dataRef]{
		Event: s.publishEvent,
		Value: s.publishValue,
		Lost:  func(events int) { s.opts.Log.Warn("events of Caps dropped", "count", events) },
	})
}

// publishValue retains a value on its topic, or nothing if it is gone.
func (s *Service) publishValue(ref dataRef) {
	m := protocol.Message{Topic: s.opts.Topics.CapData(ref.cap, ref.group, ref.key), Retain: true, View: true}
	if d, revision, ok := s.opts.Data.Get(ref.tableKey()); ok {
		m.Payload = marshal(d.view(revision))
	}
	s.publish(ref.space, m)
}

// withdrawLeftovers removes retained values of data that is gone.
func (s *Service) withdrawLeftovers() {
	known := func(yield func(string, protocol.SpaceID) bool) {
		for _, d := range s.opts.Data.All() {
			if !yield(s.opts.Topics.CapData(d.Cap, d.Group, d.Key), d.Space) {
				return
			}
		}
	}
	for topic, space := range announce.Leftovers(s.opts.Retained(s.opts.Topics.CapData("+", "+", "+")), known) {
		s.publish(space, protocol.Message{Topic: topic, Retain: true, View: true})
	}
}

// Announce publishes an event of a Cap that no other bridge publishes, in order
// with those of this package. It does not block. Data is rendered as JSON.
func (s *Service) Announce(space protocol.SpaceID, id protocol.CapID, name string, data any) {
	s.news.Event(announcement{space: space, cap: id, name: name, data: data})
}

// announceChange publishes an event that every bridge publishes to its own clients.
func (s *Service) announceChange(space protocol.SpaceID, id protocol.CapID, name string, data any) {
	s.news.Event(announcement{space: space, cap: id, name: name, data: data, here: true})
}

func (s *Service) publishEvent(e announcement) {
	s.seq++
	event := protocol.Event{
		Version:   protocol.Version,
		ID:        protocol.NewID(),
		Timestamp: s.opts.Now().UnixMilli(),
		Name:      e.name,
		Seq:       s.seq,
		Data:      marshal(e.data),
		Metadata:  protocol.Metadata{SenderID: s.opts.BridgeID},
	}
	s.publish(e.space, protocol.Message{Topic: s.opts.Topics.CapEvent(e.cap), Payload: event.Append(nil), View: e.here})
}

// publish sends an event to all its subscribers in a space.
func (s *Service) publish(in protocol.SpaceID, m protocol.Message) {
	m.QoS = 1
	if len(m.Payload) > 0 {
		m.ContentType = protocol.ContentJSON
	}
	if _, err := s.opts.Publish(protocol.Everybody(in), m); err != nil {
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
