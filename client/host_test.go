package client_test

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// TestOneClientAnswersForSeveralAgents hosts two agents over one connection, which
// breaks: each answers for itself, and one that rests is asked for nothing.
func TestOneClientAnswersForSeveralAgents(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	heartbeats := make(chan string, 100)
	b.on("agent.heartbeat", func(r *protocol.Request, _ *broker.Publication) (any, error) {
		heartbeats <- string(r.Params)
		return struct{}{}, nil
	})
	removed := make(chan string, 1)
	b.on("agent.unregister", func(r *protocol.Request, _ *broker.Publication) (any, error) {
		removed <- string(r.Params)
		return struct{}{}, nil
	})
	c := b.dial()
	hosts := map[string]*client.HostedAgent{}
	for _, id := range []string{"a", "b"} {
		h, err := c.Host(client.Agent{ID: protocol.AgentID(id)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Host(client.Agent{ID: protocol.AgentID(id)}); protocol.CodeOf(err) != protocol.AlreadyExists {
			t.Errorf("hosted twice: %v", err)
		}
		if _, err := h.ServeSkills(soon(t), one(echo)); err != nil {
			t.Fatal(err)
		}
		hosts[id] = h
	}
	listens := func(id string) bool {
		n, err := b.publish(protocol.Message{Topic: "aibridge/agent/" + id + "/request", Payload: []byte("{}")})
		return err == nil && n > 0
	}
	for id := range hosts {
		if !listens(id) {
			t.Errorf("nobody listens for %s", id)
		}
	}
	if err := hosts["a"].Rest(soon(t)); err != nil {
		t.Fatal(err)
	}
	if listens("a") || !listens("b") {
		t.Error("the one that rests is listened for, or the other is not")
	}
	b.stop()
	b.start()
	eventually.Holds(t, "the other is listened for again", func() bool { return listens("b") })
	if listens("a") {
		t.Error("the one that rests is listened for after the connection was lost")
	}
	if _, err := hosts["a"].ServeSkills(soon(t), one(echo)); err != nil || !listens("a") {
		t.Errorf("the one that has rested: %v", err)
	}
	if err := hosts["b"].Remove(soon(t)); err != nil || listens("b") {
		t.Errorf("the one that is removed: %v", err)
	}
	if params := <-removed; !strings.Contains(params, `"agent_id":"b"`) {
		t.Errorf("unregistered was %s", params)
	}
	if len(heartbeats) > 0 {
		t.Errorf("heartbeats came for agents that the connection stands for: %s", <-heartbeats)
	}
}
