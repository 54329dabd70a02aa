package main

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
)

// waitingTurn is of an answer of a model what tells that a call waits.
type waitingTurn struct {
	Finish  string `json:"finish_reason"`
	Session string `json:"session_id"`
	Waiting struct {
		Task     string `json:"task_id"`
		Approval string `json:"approval_id"`
	} `json:"waiting"`
}

// wantsToRing starts a turn at a bridge in which the model calls the bell, a call that
// waits for an approval.
func wantsToRing(t *testing.T, b *binary, command, params string) waitingTurn {
	t.Helper()
	c := dial(t, b)
	eventually.Holds(t, "the bridge knows that the bell is there", func() bool {
		var bell struct{ Status string }
		return asks(t, c, "agent.get", map[string]any{"agent_id": "bell"}, &bell) == nil && bell.Status == "online"
	})
	var turn waitingTurn
	ask(t, c, command, params, &turn)
	if turn.Finish != "waiting" || turn.Waiting.Task == "" {
		t.Fatalf("%s is answered with %+v", command, turn)
	}
	return turn
}

// agreesTo has somebody agree to a call at a bridge: as soon as that knows of it, and
// again if nothing could be stored, as while the others elect who stores.
func agreesTo(t *testing.T, b *binary, approval string) {
	t.Helper()
	c := dial(t, b)
	var shown struct{ State, Nonce string }
	eventually.Holds(t, "somebody agrees", func() bool {
		err := asks(t, c, "approval.get", map[string]any{"approval_id": approval}, &shown)
		if err == nil && shown.State == "pending" {
			err = asks(t, c, "approval.decide", map[string]any{"approval_id": approval, "nonce": shown.Nonce, "decision": "approve"}, nil)
		}
		return err == nil
	}, &shown)
	if shown.State != "pending" && shown.State != "approved" && shown.State != "used" {
		t.Fatalf("nobody but this one decides, and the question is %s", shown.State)
	}
}

// asks runs a command, and tells why it fails.
func asks(t *testing.T, c *client.Client, command string, params map[string]any, result any) error {
	t.Helper()
	raw, err := client.Call[json.RawMessage](t.Context(), c, command, params, client.Fresh())
	if err == nil && result != nil {
		err = json.Unmarshal(raw, result)
	}
	return err
}

// endOf is how a task has ended, and what the model said last, as a bridge tells it.
func endOf(t *testing.T, b *binary, task string) (state, said string) {
	t.Helper()
	c := dial(t, b)
	var got struct {
		State  string
		Result struct{ Result string }
	}
	eventually.Holds(t, "the task has ended", func() bool {
		return asks(t, c, "task.get", map[string]any{"task_id": task}, &got) == nil && got.State != "waiting" && got.State != "running"
	}, &got)
	return got.State, got.Result.Result
}

// TestWhatWaitsOutlivesItsBridge runs three bridges and kills them while a call of a
// model waits there: it is decided at another one, and made once. The bridge at which
// it is decided is killed, too: as soon as it has said that it is.
func TestWhatWaitsOutlivesItsBridge(t *testing.T) {
	server := httptest.NewServer(&ringer{})
	defer server.Close()
	defer server.CloseClientConnections()
	whole, c := t, startTrio(t, "--dev", "--llm-base-url", server.URL+"/v1", "--llm-model", "m-1")
	var rings atomic.Int32
	serveBell(t, c.bridges[2], false, func() { rings.Add(1) }, func(c *client.Capability) { c.Risk = "high" })

	for command, params := range map[string]string{
		"llm.query": `{"query":"Ring, please","tools":["bell.*"],"approval_wait_ms":0}`,
		"llm.chat":  `{"message":"Ring, please","tools":["bell.*"],"approval_wait_ms":0}`,
	} {
		t.Run(command, func(t *testing.T) {
			rings.Store(0)
			turn := wantsToRing(t, c.bridges[0], command, params)
			c.bridges[0].kill()
			agreesTo(t, c.bridges[1], turn.Waiting.Approval)
			if state, said := endOf(t, c.bridges[2], turn.Waiting.Task); state != "succeeded" || !strings.Contains(said, `"rung":true`) || rings.Load() != 1 {
				t.Errorf("the task is %s, the model said %q, and the bell was rung %d times\n%s", state, said, rings.Load(), c.bridges[2].log)
			}
			if command == "llm.chat" {
				toldInConversation(t, c.bridges[1], turn.Session)
			}

			turn = wantsToRing(t, c.restart(whole, 0), command, params)
			rings.Store(0)
			agreesTo(t, c.bridges[1], turn.Waiting.Approval)
			c.bridges[1].kill() // wherever that finds it
			state, said := endOf(t, c.bridges[2], turn.Waiting.Task)
			switch n := rings.Load(); {
			case strings.Contains(said, `"rung":true`) && n == 1:
			case strings.Contains(said, "4012") && n <= 1: // killed between the claim and the record of its end
			default:
				t.Errorf("the task is %s, the model said %q, and the bell was rung %d times\n%s", state, said, n, c.bridges[2].log)
			}
			c.restart(whole, 1)
		})
	}
}

// toldInConversation waits until the answer that waited is in its conversation.
func toldInConversation(t *testing.T, b *binary, session string) {
	t.Helper()
	c := dial(t, b)
	var got struct{ Messages []json.RawMessage }
	eventually.Holds(t, "the conversation has the answer", func() bool {
		return asks(t, c, "llm.conversation.get", map[string]any{"session_id": session}, &got) == nil &&
			len(got.Messages) > 0 && strings.Contains(string(got.Messages[len(got.Messages)-1]), "I heard")
	}, &got)
}
