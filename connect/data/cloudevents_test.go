package data

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
)

// TestTheBridgesEventsAreCloudEvents has the SDK of CloudEvents read what a bridge
// publishes, in both modes, and a table take it.
func TestTheBridgesEventsAreCloudEvents(t *testing.T) {
	_, database := newPostgres(t)
	config := filepath.Join(t.TempDir(), "bridge.yaml")
	if err := os.WriteFile(config, []byte("mqtt: {cloudevents: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, url := newBridge(t, "--config", config)
	s := newSender(t, url)
	messages := make(chan client.Message, 100)
	for _, mode := range []string{"binary", "structured"} {
		if _, err := s.client.Subscribe(t.Context(), "aibridge/cloudevents/"+mode+"/event/resource", func(_ context.Context, m client.Message) { messages <- m }); err != nil {
			t.Fatal(err)
		}
	}
	example, err := os.ReadFile("examples/postgres.yaml")
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "events.yaml")
	text := strings.Replace(string(example), `["plant/#"]`, `[aibridge/cloudevents/binary/event/resource, aibridge/cloudevents/structured/event/resource]`, 1)
	if err := os.WriteFile(own, []byte(strings.ReplaceAll(text, "readings", "events")), 0o600); err != nil {
		t.Fatal(err)
	}
	pipelineOf(t, own, "AIBRIDGE_URL="+url, "DATABASE_URL="+database).connected(t)
	register := map[string]any{"resource": map[string]any{"resource_id": "plan", "name": "Plan", "type": "room"}}
	if _, err := client.Call[json.RawMessage](t.Context(), s.client, "resource.register", register); err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]int)
	for range 2 {
		e := read(t, <-messages)
		if err := e.Validate(); err != nil {
			t.Error(err)
		}
		if e.Type() != "io.github.aibridge.resource.registered" || e.Subject() != "event/resource" || !strings.Contains(string(e.Data()), "plan") || e.Extensions()["sequence"] == nil {
			t.Errorf("%s", e)
		}
		ids[e.Source()+" "+e.ID()]++
	}
	if len(ids) != 1 {
		t.Errorf("%v", ids)
	}
	tries := 0
	eventually.Holds(t, "a later event is in the table", func() bool {
		tries++
		register["resource"].(map[string]any)["name"] = fmt.Sprint("Plan ", tries)
		if _, err := client.Call[json.RawMessage](t.Context(), s.client, "resource.register", register); err != nil {
			return false
		}
		return query[int](t, database, `SELECT count(*) FROM events`) > 0
	})
	if n := query[int](t, database, `SELECT count(*) FROM events WHERE event_id IS NULL`); n > 0 {
		t.Errorf("%d rows are not known for events", n)
	}
}

// read has the SDK read an event: user properties are to MQTT what headers are to HTTP.
func read(t *testing.T, m client.Message) *event.Event {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "/", strings.NewReader(string(m.Payload)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", m.ContentType)
	for _, p := range m.UserProperties {
		r.Header.Set("ce-"+p.Key, p.Value)
	}
	e, err := cehttp.NewEventFromHTTPRequest(r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
