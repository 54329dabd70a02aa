package app_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A meeting is where several have to be at once.
type meeting struct {
	mu   sync.Mutex
	here int
	all  chan struct{}
}

// wait returns when two are here, or says that nobody else came.
func (m *meeting) wait(ctx context.Context) error {
	m.mu.Lock()
	if m.here++; m.here == 2 {
		close(m.all)
	}
	m.mu.Unlock()
	select {
	case <-m.all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(eventually.Patience):
		return protocol.Errorf(protocol.TimedOut, "nobody else came")
	}
}

// TestWhatOnlyReadsRunsSideBySide has a skill say of one of its capabilities
// that it changes nothing: only of that one are two calls under way at once.
func TestWhatOnlyReadsRunsSideBySide(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	together := meeting{all: make(chan struct{})}
	var mu sync.Mutex
	pressing, pressed := false, 0
	served := n.Dial(t, client.WithAgent(client.Agent{ID: "panel-1"}))
	_, err := served.ServeSkill(t.Context(), client.Skill{ID: "panel", Name: "Panel", Capabilities: []client.Capability{
		{ID: "look", Effect: client.EffectRead, Handler: client.Handle(func(ctx context.Context, _ *client.Invocation, _ struct{}) (struct{}, error) {
			return struct{}{}, together.wait(ctx)
		})},
		{ID: "peek", Effect: client.EffectRead, Risk: "high", Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (struct{}, error) {
			t.Error("looked without an approval")
			return struct{}{}, nil
		})},
		{ID: "press", Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (struct{}, error) {
			mu.Lock()
			if pressing {
				t.Error("pressed while it was being pressed")
			}
			pressing = true
			mu.Unlock()
			defer func() {
				mu.Lock()
				pressing = false
				pressed++
				mu.Unlock()
			}()
			return struct{}{}, nil
		})},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := modelFor(t, n, "ada", protocol.RoleAnonymous)
	results := n.Bridge.ToolExecutor().Execute(t.Context(), m.box("*"), m.env, []*chat.ToolCall{
		{ID: "1", Name: "panel.look"}, {ID: "2", Name: "panel.look"}, {ID: "3", Name: "panel.press"}, {ID: "4", Name: "panel.press"},
	})
	for _, r := range results {
		if r.Status != tools.Success {
			t.Errorf("%s: %s", r.CallID, r.Text)
		}
	}
	mu.Lock()
	if pressed != 2 {
		t.Errorf("pressed %d times", pressed)
	}
	mu.Unlock()

	// Whatever a skill says of its effect, its risk is asked about.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []tools.Result, 1)
	go func() {
		done <- n.Bridge.ToolExecutor().Execute(ctx, m.box("*"), m.env, []*chat.ToolCall{{ID: "5", Name: "panel.peek"}})
	}()
	c := n.Caller(t, "caller")
	eventually.Holds(t, "somebody is asked", func() bool {
		return strings.Contains(string(must(t, c, "approval.list", `{"state":"pending"}`)), "panel.peek")
	})
	cancel()
	if r := <-done; r[0].Status != tools.Skipped {
		t.Errorf("peek: %s %s", r[0].Status, r[0].Text)
	}

	session := mcpClient(t, n, "", "", nil)
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	hints := map[string]bool{}
	for _, tool := range list.Tools {
		hints[tool.Name] = tool.Annotations.ReadOnlyHint
	}
	if !hints["panel.look"] || hints["panel.press"] {
		t.Errorf("MCP clients are told %v", hints)
	}
}
