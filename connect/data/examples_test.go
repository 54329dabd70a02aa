package data

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/freeport"
	"github.com/aibridge/aibridge/protocol"
)

// A converter is an agent with the skill that the examples invoke.
type converter struct {
	mu   sync.Mutex
	runs map[float64]int // by the temperature that was converted
}

func newConverter(t *testing.T, url string) *converter {
	t.Helper()
	x := &converter{runs: make(map[float64]int)}
	c, err := client.Dial(t.Context(), url, client.WithAgent(client.Agent{ID: "desk"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	type in struct {
		Celsius *float64 `json:"celsius"`
	}
	_, err = c.ServeSkill(t.Context(), client.Skill{ID: "unit-converter", Name: "Unit converter", Capabilities: []client.Capability{{
		ID: "celsius_to_fahrenheit", Handler: client.Handle(func(_ context.Context, _ *client.Invocation, p in) (any, error) {
			if p.Celsius == nil {
				return nil, protocol.InvalidParam("celsius", "is needed")
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			x.runs[*p.Celsius]++
			return *p.Celsius*9/5 + 32, nil
		}),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *converter) ran(celsius float64) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.runs[celsius]
}

func TestASkillAnswersOverHTTP(t *testing.T) {
	_, url := newBridge(t)
	newSender(t, url)
	newConverter(t, url)
	address := freeport.Address()
	newPipeline(t, "http", "AIBRIDGE_URL="+url, "HTTP_ADDRESS="+address)
	ask := func(body string) (answer map[string]any) {
		r, err := http.Post("http://"+address+"/convert", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return answer
	}
	if got := ask(`{"celsius":100}`); got["fahrenheit"] != 212.0 || got["celsius"] != 100.0 {
		t.Errorf("%v", got)
	}
	if got := ask(`{"kelvin":100}`); got["error"] != string(protocol.InvalidParameter) || !strings.Contains(got["message"].(string), "celsius") {
		t.Errorf("%v", got)
	}
}

func TestLinesOfAFileAreMessages(t *testing.T) {
	_, url := newBridge(t)
	s := newSender(t, url)
	got := make(chan client.Message, 10)
	if _, err := s.client.Subscribe(t.Context(), "plant/+/target", func(_ context.Context, m client.Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "targets.csv")
	if err := os.WriteFile(file, []byte("hall,celsius\nnorth,21.5\nsouth,19\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := pipelineOf(t, "examples/files.yaml", "AIBRIDGE_URL="+url, "CSV_FILE="+file)
	want := map[string]string{"plant/north/target": `{"celsius":21.5,"hall":"north"}`, "plant/south/target": `{"celsius":19,"hall":"south"}`}
	for range 2 {
		m := <-got
		if string(m.Payload) != want[m.Topic] || m.ContentType != "application/json" || m.Property("source") != "targets.csv" {
			t.Errorf("%+v", m)
		}
		delete(want, m.Topic)
	}
	if <-p.ended; p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the pipeline ended with %d: %s", p.cmd.ProcessState.ExitCode(), p.said())
	}
	// It was retained.
	if _, err := s.client.Subscribe(t.Context(), "plant/north/#", func(_ context.Context, m client.Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	if m := <-got; !m.Retain {
		t.Errorf("%+v", m)
	}
}

// TestTheAuditTrailIsInAFile kills the pipeline and goes on.
func TestTheAuditTrailIsInAFile(t *testing.T) {
	_, url := newBridge(t)
	s := newSender(t, url)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	register := func(id string) {
		t.Helper()
		params := map[string]any{"resource": map[string]any{"resource_id": id, "name": id, "type": "room"}}
		if _, err := client.Call[json.RawMessage](t.Context(), s.client, "resource.register", params); err != nil {
			t.Fatal(err)
		}
	}
	// times counts the entries that a resource was registered.
	times := func(id string) (n int) {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			var entry struct{ Event, Resource string }
			if err := json.Unmarshal([]byte(line), &entry); err == nil && entry.Event == "resource.register" && strings.Contains(entry.Resource, id) {
				n++
			}
		}
		return n
	}
	register("first")
	p := newPipeline(t, "audit", "AIBRIDGE_URL="+url, "AUDIT_FILE="+file, "PLACE_FOLDER="+t.TempDir())
	eventually.Holds(t, "what was before is there", func() bool { return times("first") > 0 })
	p.end(syscall.SIGTERM)
	register("second")
	p.start(t)
	eventually.Holds(t, "what came meanwhile is there", func() bool { return times("second") > 0 })
	if times("first") != 1 {
		t.Errorf("the first entry is there %d times", times("first"))
	}
}

// newKafka runs a cluster with one broker, which the library for Kafka has for tests.
func newKafka(t *testing.T, topics ...string) (*kgo.Client, string) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	broker := cluster.ListenAddrs()[0]
	c, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, broker
}

func TestMessagesAndEventsAreRecordsOfKafka(t *testing.T) {
	_, url := newBridge(t)
	s := newSender(t, url)
	kafka, broker := newKafka(t, "plant", "events")
	newPipeline(t, "kafka-out", "AIBRIDGE_URL="+url, "KAFKA="+broker)
	if err := s.client.Publish(t.Context(), client.Message{Topic: "plant/hall", Payload: []byte("21"), QoS: 1,
		UserProperties: []client.UserProperty{{Key: "unit", Value: "celsius"}}}); err != nil {
		t.Fatal(err)
	}
	register := map[string]any{"resource": map[string]any{"resource_id": "plan", "name": "Plan", "type": "room"}}
	if _, err := client.Call[json.RawMessage](t.Context(), s.client, "resource.register", register); err != nil {
		t.Fatal(err)
	}
	message, event := false, false
	eventually.Holds(t, "both are in Kafka", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
		defer cancel()
		for _, r := range kafka.PollFetches(ctx).Records() {
			if r.Topic == "plant" && string(r.Value) == "21" && string(r.Key) == "plant/hall" {
				message = true
				if len(r.Headers) != 1 || r.Headers[0].Key != "aibridge_property_unit" || string(r.Headers[0].Value) != "celsius" {
					t.Errorf("headers: %v", r.Headers)
				}
			}
			event = event || r.Topic == "events" && bytes.Contains(r.Value, []byte("plan"))
		}
		return message && event
	})
}

// TestARecordOfKafkaInvokesASkillOnce ends the pipeline between two records, and has one
// that the skill refuses put aside.
func TestARecordOfKafkaInvokesASkillOnce(t *testing.T) {
	_, url := newBridge(t)
	newSender(t, url)
	x := newConverter(t, url)
	kafka, broker := newKafka(t, "conversions", "conversions-refused")
	produce := func(text string) {
		t.Helper()
		if err := kafka.ProduceSync(t.Context(), &kgo.Record{Topic: "conversions", Value: []byte(text)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce(`{"celsius":1}`)
	p := newPipeline(t, "kafka-in", "AIBRIDGE_URL="+url, "KAFKA="+broker)
	eventually.Holds(t, "the first record was converted", func() bool { return x.ran(1) > 0 })
	p.end(syscall.SIGTERM)
	produce(`{"kelvin":2}`)
	produce(`{"celsius":3}`)
	p.start(t)
	eventually.Holds(t, "the third record was converted", func() bool { return x.ran(3) > 0 })
	var refused *kgo.Record
	eventually.Holds(t, "the second is put aside", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
		defer cancel()
		for _, r := range kafka.PollFetches(ctx).Records() {
			if r.Topic == "conversions-refused" {
				refused = r
			}
		}
		return refused != nil
	})
	if string(refused.Value) != `{"kelvin":2}` || len(refused.Headers) != 1 || !strings.Contains(string(refused.Headers[0].Value), "celsius") {
		t.Errorf("%s %v", refused.Value, refused.Headers)
	}
	for _, celsius := range []float64{1, 3} {
		if x.ran(celsius) != 1 {
			t.Errorf("%v was converted %d times", celsius, x.ran(celsius))
		}
	}
}
