package main

import (
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
)

// TestAModelsActionWaitsOverAKillAndIsDoneOnce has a model want to ring a bell,
// which somebody has to agree to, and kills the bridge twice: while the call
// waits, and as soon as it was decided.
func TestAModelsActionWaitsOverAKillAndIsDoneOnce(t *testing.T) {
	server := httptest.NewServer(&ringer{})
	defer server.Close()
	defer server.CloseClientConnections()
	flags := []string{"--dev", "--llm-base-url", server.URL + "/v1", "--llm-model", "m-1"}
	data := t.TempDir()
	var rings atomic.Int32
	risky := func(c *client.Capability) { c.Risk = "high" }

	bridge := startBinary(t, data, flags...)
	serveBell(t, bridge, false, func() { rings.Add(1) }, risky)
	var asked struct {
		Finish  string `json:"finish_reason"`
		Waiting struct {
			Task     string `json:"task_id"`
			Approval string `json:"approval_id"`
		} `json:"waiting"`
	}
	ask(t, dial(t, bridge), "llm.query", `{"query":"Ring, please","tools":["bell.*"],"approval_wait_ms":0}`, &asked)
	if asked.Finish != "waiting" || asked.Waiting.Task == "" {
		t.Fatalf("told %+v", asked)
	}
	bridge.kill()

	bridge = startBinary(t, data, flags...)
	serveBell(t, bridge, false, func() { rings.Add(1) }, risky)
	c := dial(t, bridge)
	var approval struct {
		State, Nonce string
	}
	ask(t, c, "approval.get", `{"approval_id":"`+asked.Waiting.Approval+`"}`, &approval)
	if approval.State != "pending" || rings.Load() != 0 {
		t.Fatalf("after the kill it is %s, and the bell was rung %d times", approval.State, rings.Load())
	}
	ask(t, c, "approval.decide", `{"approval_id":"`+asked.Waiting.Approval+`","nonce":"`+approval.Nonce+`","decision":"approve"}`, nil)
	bridge.kill() // wherever that finds it

	bridge = startBinary(t, data, flags...)
	serveBell(t, bridge, false, func() { rings.Add(1) }, risky)
	c = dial(t, bridge)
	var task struct {
		State  string
		Result struct{ Result string }
	}
	eventually.Holds(t, "the task has ended", func() bool {
		ask(t, c, "task.get", `{"task_id":"`+asked.Waiting.Task+`"}`, &task)
		return task.State != "waiting" && task.State != "running"
	}, &task)
	said, n := task.Result.Result, rings.Load()
	switch {
	case strings.Contains(said, `"rung":true`) && n == 1:
	case strings.Contains(said, "4012") && n <= 1: // killed between the claim and the record of its end
	case strings.Contains(said, "(code 3005)") && n == 0: // the bell came back too late for the bridge
	default:
		t.Errorf("the task is %s, the model said %q, and the bell was rung %d times\n%s", task.State, said, n, bridge.log)
	}
}
