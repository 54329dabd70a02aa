// Package cloudevents tells the events of the bridge a second and a third time, as
// CloudEvents 1.0 by its MQTT binding: below cloudevents/binary/ the data with the
// attributes as user properties of MQTT 5, below cloudevents/structured/ one JSON
// object, which clients with MQTT 3.1.1 read, too.
package cloudevents

import (
	"log/slog"
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/cloudevent"
)

// A Teller publishes events as CloudEvents.
type Teller struct {
	Topics  protocol.Topics
	Publish func(to protocol.Recipients, m protocol.Message) (receivers int, err error)
	Log     *slog.Logger
}

// Published takes note of a message of the bridge. If it is an event, the same
// recipients are told it as CloudEvents, which are not retained.
func (t *Teller) Published(to protocol.Recipients, m protocol.Message) {
	subject, ok := t.Topics.Under(m.Topic)
	if !ok || !isEvent(subject) || len(m.Payload) == 0 {
		return
	}
	event, err := protocol.DecodeEvent(m.Payload, protocol.Limits{})
	if err != nil {
		t.Log.Warn("an event is not told as a CloudEvent", "topic", m.Topic, "error", err)
		return
	}
	event.Traceparent = m.Property(protocol.TraceparentProperty)
	c := cloudevent.Of(event, subject)
	binary, structured := m, m
	binary.Topic, structured.Topic = cloudevent.Topic(t.Topics, cloudevent.Binary, subject), cloudevent.Topic(t.Topics, cloudevent.Structured, subject)
	binary.Retain, structured.Retain = false, false
	binary.Payload, binary.ContentType = c.Data, protocol.ContentJSON
	binary.UserProperties = c.Attributes()
	structured.UserProperties = nil // the attributes are in the object
	structured.Payload, structured.ContentType = c.Append(nil), cloudevent.ContentType
	for _, told := range []protocol.Message{binary, structured} {
		if _, err := t.Publish(to, told); err != nil {
			t.Log.Warn("a CloudEvent is not published", "topic", told.Topic, "error", err)
		}
	}
}

// isEvent reports whether a topic without the root is one of events.
func isEvent(subject string) bool {
	levels := strings.Split(subject, "/")
	switch last := levels[len(levels)-1]; levels[0] {
	case "event":
		return len(levels) == 2
	case "task", "cap", "vfs", "agent":
		return len(levels) == 3 && last == "event"
	case "scene":
		return len(levels) == 4 && last == "event"
	}
	return false
}
