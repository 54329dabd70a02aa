package check

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// A server gives messages to inspectors by their filter.
type server map[string][]broker.Inspector

func (s server) Inspect(filter string, by broker.Inspector) { s[filter] = append(s[filter], by) }

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const celsius = `{"type":"object","properties":{"celsius":{"type":"number","minimum":-40}},"required":["celsius"]}`

func TestMessagesAreHeldAgainstSchemas(t *testing.T) {
	t.Parallel()
	s, registry, path := server{}, prometheus.NewRegistry(), file(t, celsius)
	schemas := []Schema{{Topic: "a", File: path}, {Topic: "b", File: path, Otherwise: Count}, {Topic: "c", File: path, Otherwise: Tag}, {Topic: "d", File: path, Space: "other"}}
	if err := Schemas(s, schemas, registry, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	client := broker.NewClient("c", &protocol.Principal{Space: protocol.DefaultSpace})
	for topic, wrong := range map[string]byte{"a": 0x99, "b": 0, "c": 0, "d": 0} {
		for payload, fits := range map[string]bool{`{"celsius":20}`: true, `{"celsius":-41}`: false, `{}`: false, `warm`: false, ``: false} {
			v := s[topic][0](&broker.Inspection{Client: client, Topic: topic, Payload: []byte(payload)})
			if fits && !v.Allowed() || !fits && v.Reason != wrong {
				t.Errorf("%s %s: %+v", topic, payload, v)
			}
			if payload == `{"celsius":-41}` && wrong != 0 && !strings.HasPrefix(v.Text, "payload.celsius ") {
				t.Errorf("the reason is %q", v.Text)
			}
		}
	}
	want := `
# HELP aibridge_schema_messages_total Messages that were checked against a schema, by topic filter and outcome: valid, rejected, counted or tagged.
# TYPE aibridge_schema_messages_total counter
aibridge_schema_messages_total{filter="a",outcome="rejected"} 4
aibridge_schema_messages_total{filter="a",outcome="valid"} 1
aibridge_schema_messages_total{filter="b",outcome="counted"} 4
aibridge_schema_messages_total{filter="b",outcome="valid"} 1
aibridge_schema_messages_total{filter="c",outcome="tagged"} 4
aibridge_schema_messages_total{filter="c",outcome="valid"} 1
aibridge_schema_messages_total{filter="d",outcome="rejected"} 0
aibridge_schema_messages_total{filter="d",outcome="valid"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestSettingsOfSchemasAreChecked(t *testing.T) {
	t.Parallel()
	good := file(t, celsius)
	for want, s := range map[string]Schema{
		"":             {Topic: "a/#", File: good},
		"topic filter": {Topic: "a#", File: good},
		"topic":        {Topic: "$share/g/a", File: good},
		"none of":      {Topic: "a", File: good, Otherwise: "drop"},
		"a file":       {Topic: "a"},
		"no such file": {Topic: "a", File: good + "x"},
		"schema.json":  {Topic: "a", File: file(t, `{"type":7}`)},
		"maxmum":       {Topic: "a", File: file(t, `{"maxmum":7}`)},
	} {
		var faults []string
		CheckSchemas([]Schema{s}, func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...).Error()) })
		if got := strings.Join(faults, "; "); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

func TestReasonsAreCutBetweenRunes(t *testing.T) {
	t.Parallel()
	if got := short(strings.Repeat("é", 200)); got != strings.Repeat("é", 128)+"…" {
		t.Errorf("%q", got)
	}
}

func TestTopicsAreCounted(t *testing.T) {
	t.Parallel()
	s, registry := server{}, prometheus.NewRegistry()
	Topics(s, []string{"a/#"}, registry)
	for range 3 {
		if v := s["a/#"][0](&broker.Inspection{Payload: []byte("four")}); !v.Allowed() {
			t.Error(v)
		}
	}
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 2 {
		t.Error(n, err)
	}
}
