package cloudevent

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestAnEventIsACloudEvent(t *testing.T) {
	for name, c := range map[string]struct {
		event protocol.Event
		want  map[string]any
	}{
		"whole": {
			protocol.Event{ID: "r-1", Timestamp: 1737000000007, Name: "task.progress", Seq: 3, Data: []byte(`{"done":2}`),
				Metadata: protocol.Metadata{SenderID: "hall bridge", TraceID: "trace"}, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
			map[string]any{"specversion": "1.0", "id": "r-1.3.1737000000007", "source": "urn:aibridge:hall%20bridge", "type": "io.github.aibridge.task.progress",
				"subject": "task/t/event", "time": "2025-01-16T04:00:00.007Z", "sequence": "3", "traceid": "trace", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
				"datacontenttype": "application/json", "data": map[string]any{"done": 2.0}},
		},
		"little": {
			protocol.Event{ID: "r", Name: "x", Metadata: protocol.Metadata{TraceID: "a\nb"}},
			map[string]any{"specversion": "1.0", "id": "r.0.0", "source": "urn:aibridge:bridge", "type": "io.github.aibridge.x",
				"subject": "task/t/event", "time": "1970-01-01T00:00:00.000Z", "sequence": "0", "datacontenttype": "application/json"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := Of(&c.event, "task/t/event")
			var got map[string]any
			if err := json.Unmarshal(e.Append(nil), &got); err != nil {
				t.Fatal(err)
			}
			for key, want := range c.want {
				if key == "data" {
					continue
				}
				if got[key] != want {
					t.Errorf("%s is %v, want %v", key, got[key], want)
				}
			}
			if data, _ := got["data"].(map[string]any); len(got) != len(c.want) || data["done"] != nested(c.want["data"]) {
				t.Errorf("%v", got)
			}
			attributes := make(map[string]any)
			for _, a := range e.Attributes() {
				attributes[a.Key] = a.Value
			}
			delete(got, "data")
			delete(got, "datacontenttype")
			if !maps.Equal(attributes, got) {
				t.Errorf("attributes %v, want %v", attributes, got)
			}
		})
	}
}

func nested(data any) any {
	object, _ := data.(map[string]any)
	return object["done"]
}

func TestCloudEventsAreForThoseWhoMayHearTheEvents(t *testing.T) {
	topics := protocol.NewTopics("home")
	for filter, want := range map[string]string{
		"home/cloudevents/binary/task/t/event": "home/task/t/event",
		"home/cloudevents/structured/event/#":  "home/event/#",
		"home/cloudevents/binary/#":            "home/#",
		"home/cloudevents/+/task/t/event":      "home/cloudevents/+/task/t/event",
		"home/cloudevents/#":                   "home/cloudevents/#",
		"home/cloudevents/binary":              "home/cloudevents/binary",
		"home/cloudevents/both/task/t/event":   "home/cloudevents/both/task/t/event",
		"cloudevents/binary/task/t/event":      "cloudevents/binary/task/t/event",
		"home/task/t/event":                    "home/task/t/event",
	} {
		if got := Told(topics, filter); got != want {
			t.Errorf("%s tells of %s, want %s", filter, got, want)
		}
	}
	if got := Told(topics, Topic(topics, Binary, "task/t/event")); got != topics.TaskEvent("t") {
		t.Errorf("it tells of %s", got)
	}
}
