package scene

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/internal/announce"
	"github.com/aibridge/aibridge/protocol"
)

// An announcement is an event on its way to a scene's topic.
type announcement struct {
	space protocol.SpaceID
	scene id
	name  string
	data  Event
}

// maxAnnouncements bounds the events that wait.
const maxAnnouncements = 16384

// news are the waiting publications: events alone, each retained as the state
// of its scene.
type news = announce.Queue[announcement, struct{}]

// announce publishes events until ctx ends, and then those that are left.
func (s *Service) announce(ctx context.Context) {
	s.news.Run(ctx, announce.Publisher[announcement, struct{}]{
		Event: s.publishEvent,
		Lost:  func(events int) { s.opts.Log.Warn("events of scenes dropped", "count", events) },
	})
}

// publishEvent publishes an event and retains it as the state of the scene. The
// end of the scene removes the retained state.
func (s *Service) publishEvent(e announcement) {
	data, err := json.Marshal(e.data)
	if err != nil { // an Event is a plain struct
		s.opts.Log.Error("event of a scene not rendered", "event", e.name, "error", err)
		return
	}
	s.seq++
	event := protocol.Event{
		Version:   protocol.Version,
		ID:        protocol.NewID(),
		Timestamp: s.opts.Now().UnixMilli(),
		Name:      e.name,
		Seq:       s.seq,
		Data:      data,
		Metadata:  protocol.Metadata{SenderID: s.opts.BridgeID},
	}
	topic := s.opts.Topics.SceneEvent(e.scene.scene, e.scene.cap)
	ended := e.name == cancelledEvent
	s.publish(e.space, protocol.Message{Topic: topic, Payload: event.Append(nil), Retain: !ended})
	if ended {
		s.publish(e.space, protocol.Message{Topic: topic, Retain: true})
	}
}

// withdrawLeftovers removes the retained states of ended scenes.
func (s *Service) withdrawLeftovers() {
	known := func(yield func(string, protocol.SpaceID) bool) {
		for _, scene := range s.opts.Scenes.All() {
			if !yield(s.opts.Topics.SceneEvent(scene.Type, scene.Cap), scene.Space) {
				return
			}
		}
	}
	for topic, space := range announce.Leftovers(s.opts.Retained(s.opts.Topics.SceneEvent("+", "+")), known) {
		s.publish(space, protocol.Message{Topic: topic, Retain: true})
	}
}

// publish sends an event to all its subscribers in a space.
func (s *Service) publish(in protocol.SpaceID, m protocol.Message) {
	m.QoS, m.View = 1, true
	if len(m.Payload) > 0 {
		m.ContentType = protocol.ContentJSON
	}
	if _, err := s.opts.Publish(protocol.Everybody(in), m); err != nil {
		s.opts.Log.Warn("message about a scene not published", "topic", m.Topic, "error", err)
	}
}
