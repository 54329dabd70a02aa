package cloudevents

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// told collects what a teller publishes about a message.
func told(t *testing.T, m protocol.Message) (messages []protocol.Message) {
	t.Helper()
	teller := &Teller{Topics: protocol.NewTopics(""), Log: slog.New(slog.DiscardHandler),
		Publish: func(to protocol.Recipients, m protocol.Message) (int, error) {
			if to != protocol.Everybody("home") {
				t.Errorf("%s is for %+v", m.Topic, to)
			}
			messages = append(messages, m)
			return 0, nil
		}}
	teller.Published(protocol.Everybody("home"), m)
	return messages
}

func TestEventsAreToldInBothModes(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	event := protocol.Event{Version: protocol.Version, ID: "e", Timestamp: 1, Name: "x.y", Seq: 2, Data: []byte(`{"n":1}`)}
	for _, topic := range []string{"event/agent", "task/t/event", "cap/c/event", "scene/HOME/c/event", "vfs/g/event", "agent/a/event"} {
		got := told(t, protocol.Message{Topic: "aibridge/" + topic, Payload: event.Append(nil), QoS: 1, Retain: true, View: true, ContentType: protocol.ContentJSON,
			UserProperties: []protocol.UserProperty{{Key: protocol.TraceparentProperty, Value: parent}}})
		if len(got) != 2 {
			t.Fatalf("%s: %d messages", topic, len(got))
		}
		binary, structured := got[0], got[1]
		if binary.Topic != "aibridge/cloudevents/binary/"+topic || string(binary.Payload) != `{"n":1}` || binary.ContentType != "application/json" ||
			binary.Property("specversion") != "1.0" || binary.Property("subject") != topic || binary.Property("traceparent") != parent {
			t.Errorf("%s: %+v", topic, binary)
		}
		if structured.Topic != "aibridge/cloudevents/structured/"+topic || structured.ContentType != "application/cloudevents+json" || len(structured.UserProperties) > 0 ||
			!strings.Contains(string(structured.Payload), `"traceparent":"`+parent+`"`) {
			t.Errorf("%s: %+v", topic, structured)
		}
		for _, m := range got {
			if m.QoS != 1 || m.Retain || !m.View {
				t.Errorf("%s: %+v", topic, m)
			}
		}
	}
}

func TestWhatIsNoEventIsToldOnce(t *testing.T) {
	event := (&protocol.Event{Version: protocol.Version, ID: "e", Name: "x"}).Append(nil)
	for topic, payload := range map[string][]byte{
		"aibridge/agent/a/request":                    event,
		"aibridge/agent/a/card":                       event,
		"aibridge/cap/c/data/g/k":                     event,
		"aibridge/cap/c/message/event":                event,
		"aibridge/client/c/response":                  event,
		"aibridge/cloudevents/binary/task/t/event":    event,
		"aibridge/cloudevents/structured/event/agent": event,
		"elsewhere/event/agent":                       event,
		"aibridge/scene/HOME/c/event":                 nil, // the end of what was retained
		"aibridge/task/t/event":                       []byte("no event"),
	} {
		if got := told(t, protocol.Message{Topic: topic, Payload: payload}); len(got) > 0 {
			t.Errorf("%s is told again: %+v", topic, got)
		}
	}
}
