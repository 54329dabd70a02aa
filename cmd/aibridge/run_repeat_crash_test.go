package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// A ringer plays a model that rings the bell once and repeats what it heard. It
// answers no question while it is held.
type ringer struct {
	caretaker
	held atomic.Pointer[chan struct{}]
	said atomic.Int32 // last words, with what was heard
}

func (m *ringer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if held := m.held.Load(); held != nil {
		select {
		case <-*held:
		case <-r.Context().Done():
			return
		}
	}
	var q openAIRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	heard, _ := q.Messages[len(q.Messages)-1].Content.(string)
	if q.Messages[len(q.Messages)-1].Role != "tool" {
		m.call(w, "bell_ring", `{"at":"door"}`)
		return
	}
	said, _ := json.Marshal(map[string]string{"content": "I heard " + heard})
	m.say(w, string(said), "stop")
	m.said.Add(1)
}

// TestACallOfARunIsRepeatedAfterAKillOnlyIfItIsIdempotent kills the bridge
// between the request to a device and its answer. The next bridge goes on with
// the run, whose model makes the same call again.
func TestACallOfARunIsRepeatedAfterAKillOnlyIfItIsIdempotent(t *testing.T) {
	for name, test := range map[string]struct {
		idempotent bool
		rings      int32 // with the one that the kill cut short
		heard      string
	}{
		"idempotent":     {true, 2, `"rung":true`},
		"not idempotent": {false, 1, "TOOL_OUTCOME_UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			model := &ringer{}
			server := httptest.NewServer(model)
			defer server.Close()
			defer server.CloseClientConnections()
			flags := []string{"--dev", "--llm-base-url", server.URL + "/v1", "--llm-model", "m-1"}
			data := t.TempDir()
			var rings atomic.Int32
			asked, release := make(chan struct{}), make(chan struct{})

			bridge := startBinary(t, data, flags...)
			serveBell(t, bridge, test.idempotent, func() {
				rings.Add(1)
				close(asked)
				<-release
			})
			started, err := client.Call[struct {
				ID string `json:"run_id"`
			}](t.Context(), dial(t, bridge), "llm.run.start", map[string]any{"input": "Ring, please", "tools": []string{"bell.*"}})
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, asked, "the bell is asked", bridge)
			thinks := make(chan struct{})
			model.held.Store(&thinks) // until the device is back
			bridge.kill()
			close(release)

			bridge = startBinary(t, data, flags...)
			serveBell(t, bridge, test.idempotent, func() { rings.Add(1) })
			close(thinks)
			if got := runAtRest(t, bridge, started.ID); !strings.Contains(got, test.heard) {
				t.Errorf("the run says %s\n%s", got, bridge.log)
			}
			if n := rings.Load(); n != test.rings {
				t.Errorf("the bell was rung %d times", n)
			}
		})
	}
}

func waitFor(t *testing.T, c <-chan struct{}, what string, b *binary) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(bridgetest.Patience):
		t.Fatalf("not in time: %s\n%s", what, b.log)
	}
}

func serveBell(t testing.TB, b *binary, idempotent bool, ring func(), change ...func(*client.Capability)) {
	t.Helper()
	c := dial(t, b, client.WithAgent(client.Agent{ID: "bell"}))
	capability := client.Capability{
		ID: "ring", Idempotent: idempotent,
		Handler: client.Handle(func(context.Context, *client.Invocation, map[string]string) (map[string]bool, error) {
			ring()
			return map[string]bool{"rung": true}, nil
		}),
	}
	for _, f := range change {
		f(&capability)
	}
	_, err := c.ServeSkill(t.Context(), client.Skill{
		ID: "bell", Name: "Bell", Description: "Rings", Version: "1.0.0", Capabilities: []client.Capability{capability},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// runAtRest waits until a run is at rest, and returns what its model said last.
func runAtRest(t *testing.T, b *binary, id string) string {
	t.Helper()
	c := dial(t, b)
	for deadline := time.Now().Add(bridgetest.Patience); ; {
		got, err := client.Call[struct{ Phase, Message string }](t.Context(), c, "llm.run.status", map[string]any{"run_id": id, "wait_ms": 20_000})
		switch {
		case err != nil:
			t.Fatal(err)
		case got.Phase != "Running":
			return got.Phase + ": " + got.Message
		case time.Now().After(deadline):
			t.Fatalf("the run is not at rest\n%s", b.log)
		}
	}
}
