package http

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

type allowAll struct{}

func (allowAll) Authorize(context.Context, *protocol.Principal, string, commands.Resource) error {
	return nil
}
func (allowAll) ActFor(context.Context, *protocol.Principal, string) error { return nil }

type countParams struct {
	To int `json:"to" range:"1-10" doc:"end of the count"`
}

type countResult struct {
	Counted int   `json:"counted"`
	Run     int64 `json:"run"`
}

// counting is a real router with one command, which counts aloud.
func counting(t *testing.T) (*commands.Router, *commands.Set) {
	t.Helper()
	var runs atomic.Int64
	set, err := commands.NewSet(commands.New(commands.Spec{
		Name: "test.count", Summary: "Count.", Effect: commands.Write, Action: "test:count", Example: `{"to":3}`,
	}, func(_ context.Context, call *commands.Call, p countParams) (countResult, error) {
		for i := range p.To {
			call.Emit("task.progress", map[string]int{"n": i + 1})
		}
		return countResult{p.To, runs.Add(1)}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	router := commands.NewRouter(set, commands.RouterOptions{Authorizer: allowAll{}})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
		defer cancel()
		if err := router.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return router, set
}

func TestARepeatedRequestIsRunOnce(t *testing.T) {
	t.Parallel()
	router, set := counting(t)
	_, server := serve(t, Options{Router: router, Set: set})
	post := func(body string) exchange {
		return do(t, server, "POST", "/api/v1/commands/test.count", body, "Idempotency-Key", "once")
	}
	first, again := post(`{"to":2}`), post(`{"to":2}`)
	if first.status != 200 || first.body != again.body || !strings.Contains(first.body, `"run":1`) {
		t.Errorf("first %d %s, again %d %s", first.status, first.body, again.status, again.body)
	}
	if other := post(`{"to":3}`); other.code(t) != "1005" {
		t.Errorf("another body: %d %s", other.status, other.body)
	}
}

func TestEventsPassOnlyToThoseWhoAsked(t *testing.T) {
	t.Parallel()
	router, set := counting(t)
	_, server := serve(t, Options{Router: router, Set: set})

	stream := do(t, server, "POST", "/api/v1/commands/test.count", `{"to":3}`, "Accept", "text/event-stream")
	if n := strings.Count(stream.body, "event: task.progress\n"); n != 3 || !strings.Contains(stream.body, "event: response\n") {
		t.Errorf("%d events in %s", n, stream.body)
	}

	p := dial(t, server.URL)
	p.send(envelope("quiet", "test.count", `{"to":3}`))
	if m := p.receive(); m.Response == nil || m.Response.Err != nil {
		t.Errorf("without asking: %+v", m)
	}
	asking := strings.TrimSuffix(envelope("loud", "test.count", `{"to":3}`), "}") + `,"metadata":{"events":true}}`
	p.send(asking)
	for range 3 {
		if m := p.receive(); m.Event == nil || m.Event.ID != "loud" {
			t.Errorf("asking: %+v", m)
		}
	}
	if m := p.receive(); m.Response == nil || m.Response.ID != "loud" {
		t.Errorf("at the end: %+v", m)
	}
}

func TestRouterRefusalsAreTold(t *testing.T) {
	t.Parallel()
	router, set := counting(t)
	_, server := serve(t, Options{Router: router, Set: set})
	for name, c := range map[string]struct {
		path, body, code string
		status           int
	}{
		"unknown command": {"/test.cuont", `{}`, "1002", 400},
		"out of range":    {"/test.count", `{"to":11}`, "1001", 400},
		"unknown param":   {"/test.count", `{"to":1,"form":2}`, "1001", 400},
		"duplicate key":   {"/test.count", `{"to":1,"to":2}`, "1000", 400},
		"not UTF-8":       {"/test.count", "{\"to\":1,\"x\":\"\xff\"}", "1000", 400},
		"other version":   {"", strings.Replace(envelope("v", "test.count", `{"to":1}`), "0.6.3", "0.7.0", 1), "1003", 400},
		"expired":         {"", strings.Replace(envelope("x", "test.count", `{"to":1}`), `"timestamp":0`, `"timestamp":1000`, 1), "1006", 400},
	} {
		got := do(t, server, "POST", "/api/v1/commands"+c.path, c.body)
		if got.status != c.status || got.code(t) != c.code {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}
