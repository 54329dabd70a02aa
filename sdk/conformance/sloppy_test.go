package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/sdk/conformance"
)

// asDevice in the environment has this test binary be the device of a kind.
const asDevice = "CONFORMANCE_TEST_DEVICE"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asDevice); kind != "" {
		if err := sloppy(kind); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// sloppy is a device as one writes it in a hurry: it answers every request
// with the same, and has no idea of what it has been asked before.
func sloppy(kind string) error {
	ctx, id := context.Background(), os.Getenv("AIBRIDGE_AGENT_ID")
	c, err := client.Dial(ctx, os.Getenv("AIBRIDGE_URL"), client.WithClientID(id), client.WithAPIKey(os.Getenv("AIBRIDGE_API_KEY")))
	if err != nil {
		return err
	}
	counted := 0
	answer := func(ctx context.Context, m client.Message) {
		var request struct {
			ID       string `json:"id"`
			Metadata struct {
				TraceID string `json:"trace_id"`
			} `json:"metadata"`
		}
		_ = json.Unmarshal(m.Payload, &request)
		counted++
		payload := fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":0,"type":"response","status":"success","result":{"value":"hello","count":%d},"error":null,"metadata":{"trace_id":%q}}`,
			request.ID, counted, request.Metadata.TraceID)
		if kind == "spreading" {
			_ = c.Publish(ctx, client.Message{Topic: "aibridge/agent/another/response", Payload: []byte(payload), QoS: 1})
		}
		_ = c.Publish(ctx, client.Message{Topic: "aibridge/agent/" + id + "/response", Payload: []byte(payload), QoS: 1})
	}
	if _, err := c.Subscribe(ctx, "aibridge/agent/"+id+"/request", answer); err != nil {
		return err
	}
	skill := map[string]any{"skill_id": "conformance", "name": "Sloppy", "capabilities": []string{"echo", "slow", "progress", "count", "fail"}}
	if _, err := client.Call[any](ctx, c, "agent.register", map[string]any{"agent_id": id, "type": "end_agent", "skills": []any{skill}}); err != nil {
		return err
	}
	<-c.Done()
	return c.Err()
}

// outcomes are those of a run against a device of this file, by clause.
func outcomes(t *testing.T, kind string, only ...string) map[string]conformance.Result {
	t.Helper()
	report, err := conformance.Run(t.Context(), conformance.Options{
		Command: []string{os.Args[0]}, Env: []string{asDevice + "=" + kind}, Only: only,
		Patience: eventually.Patience, CheckParams: bridgetest.CheckParams, Output: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]conformance.Result)
	for _, r := range report.Results {
		byName[r.Name] = r
	}
	return byName
}

// A test that nothing can fail says nothing: what a sloppy device does wrong
// is found, and what it does right is not held against it.
func TestASloppyDeviceIsFoundOut(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"registration/order": conformance.Failed, // its echo says the same to all
		"call/echo":          conformance.Failed, // with a count beside the value
		"call/unknown-skill": conformance.Failed,
		"call/wrong-params":  conformance.Failed,
		"call/limits":        conformance.Skipped,
		"call/failure":       conformance.Failed,
		"event/progress":     conformance.Failed,
		"repeat/done":        conformance.Failed,
		"recall/done":        conformance.Failed,
		"recall/unknown":     conformance.Failed,
		"garbage/envelopes":  conformance.Failed,
		"call/sparse":        conformance.Passed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := outcomes(t, "sloppy", name)[name]; r.Outcome != want {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestADeviceThatPublishesElsewhereIsFoundOut(t *testing.T) {
	t.Parallel()
	if r := outcomes(t, "spreading", "call/sparse")["call/sparse"]; r.Outcome != conformance.Failed {
		t.Errorf("%+v", r)
	}
}

func TestAProgramThatCannotBeStartedIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := conformance.Run(t.Context(), conformance.Options{Command: []string{t.TempDir() + "/nothing"}}); err == nil {
		t.Error("no error")
	}
	if _, err := conformance.Run(t.Context(), conformance.Options{Command: []string{os.Args[0]}, Only: []string{"nothing/"}}); err == nil {
		t.Error("no error for a clause that is not there")
	}
}
