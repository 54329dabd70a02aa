package protocol_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// checkGolden compares got with a file under testdata, or writes it.
func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (run with -update if that is meant)\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}

func indented(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

func compacted(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return out.Bytes()
}

const (
	anID    = "123e4567-e89b-42d3-a456-426614174000"
	aTrace  = "456e7890-e12b-44d5-a678-901234567890"
	aMoment = 1737000000000
)

func request(command, params string, m protocol.Metadata) *protocol.Request {
	return &protocol.Request{
		Version: protocol.Version, ID: anID, Timestamp: aMoment, Command: command, Params: []byte(params), Metadata: m,
	}
}

func response(result string, failure *protocol.Error, warnings ...string) *protocol.Response {
	return &protocol.Response{
		Version: protocol.Version, ID: anID, Timestamp: aMoment + 100, Result: []byte(result), Err: failure,
		Metadata: protocol.Metadata{SenderID: "bridge-1", TraceID: aTrace, Warnings: warnings},
	}
}

func event(name, data string, seq uint64) *protocol.Event {
	return &protocol.Event{
		Version: protocol.Version, ID: anID, Timestamp: aMoment + 50, Name: name, Seq: seq, Data: []byte(data),
		Metadata: protocol.Metadata{SenderID: "agent-123", TraceID: aTrace},
	}
}

type envelope interface{ Append([]byte) []byte }

// shapes are all forms an envelope has, by the name of their golden file.
func shapes() map[string]envelope {
	full := request("skill.invoke",
		`{"skill_id":"temperature_converter_001","capability_id":"celsius_to_fahrenheit","params":{"celsius":25}}`,
		protocol.Metadata{SenderID: "agent-123", TraceID: aTrace, Priority: protocol.High, Timeout: 30 * time.Second, Events: true})
	full.Extension = []byte(`{"vendor":"company-x","schema_version":"1.0"}`)
	clockless := request("agent.heartbeat", `{"agent_id":"agent-123"}`, protocol.Metadata{Timeout: protocol.DefaultTimeout})
	clockless.Timestamp = 0
	return map[string]envelope{
		"request.json":           full,
		"request_clockless.json": clockless,
		"request_cancel.json": request("task.cancel", `{"task_id":"`+anID+`"}`,
			protocol.Metadata{SenderID: "bridge-1", TraceID: aTrace, Timeout: 1500 * time.Millisecond}),

		"response_success.json":  response(`{"skill_id":"temperature_converter_001","data":{"fahrenheit":77},"execution_time":12}`, nil),
		"response_empty.json":    response(`{}`, nil),
		"response_warnings.json": response(`{}`, nil, "version 0.6.1 is deprecated, send 0.6.3"),
		"response_failure.json":  response(`{}`, protocol.InvalidParam("space_id", "must have 1 to 64 characters, has 0")),
		"response_busy.json":     response(`{}`, protocol.BusyFor(250*time.Millisecond, "too many requests wait")),
		"response_partial.json": response(`{"total":2,"success_count":1,"failure_count":1,"results":[]}`,
			protocol.Errorf(protocol.BatchInvalid, "stopped at the first error")),

		"event_accepted.json": event("task.accepted", `{}`, 0),
		"event_rejected.json": event("task.rejected", `{"reason":"the oven is off"}`, 1),
		"event_progress.json": event("task.progress", `{"percent":40,"message":"heating"}`, 1),
		"event_delta.json":    event("task.delta", `{"text":"Hel"}`, 2),
	}
}

func TestEnvelopesLookLikeTheGoldenFiles(t *testing.T) {
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, name, indented(t, shape.Append(nil)))
		})
	}
}

func TestGoldenFilesDecodeToTheirEnvelopes(t *testing.T) {
	for name, want := range shapes() {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			var got envelope
			m, err := protocol.DecodeEnvelope(data, protocol.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case m.Request != nil:
				m.Request.Params, got = compacted(t, m.Request.Params), m.Request
				if m.Request.Extension != nil {
					m.Request.Extension = compacted(t, m.Request.Extension)
				}
			case m.Response != nil:
				m.Response.Result, got = compacted(t, m.Response.Result), m.Response
			case m.Event != nil:
				m.Event.Data, got = compacted(t, m.Event.Data), m.Event
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// Each file in testdata/old is a message in an old form. Its golden file has
// the message as it is said today, then the deprecations.
func TestOldFormsAreUnderstood(t *testing.T) {
	files, err := filepath.Glob("testdata/old/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, err := protocol.DecodeEnvelope(data, protocol.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			var now envelope
			var old []string
			switch {
			case m.Request != nil:
				m.Request.Version = protocol.Version
				now, old = m.Request, m.Request.Deprecations
			case m.Response != nil:
				m.Response.Version = protocol.Version
				now, old = m.Response, m.Response.Deprecations
			default:
				t.Fatal("neither a request nor a response")
			}
			if len(old) == 0 {
				t.Error("no deprecation noted")
			}
			golden := string(indented(t, now.Append(nil))) + strings.Join(old, "\n") + "\n"
			checkGolden(t, "old/"+strings.TrimSuffix(name, ".json")+".golden", []byte(golden))
		})
	}
}
