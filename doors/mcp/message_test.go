package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// take sends one message and returns what comes back.
func (w *world) take(ctx context.Context, body string) []string {
	var mu sync.Mutex
	var back []string
	w.Take(ctx, mcpdoor.Message{
		Principal: &protocol.Principal{Kind: protocol.KindAgent, ID: "ada"}, Client: "c1", Body: []byte(body),
		Reply: func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			back = append(back, string(b))
		},
	})
	mu.Lock()
	defer mu.Unlock()
	return back
}

func TestSingleMessagesAreAnswered(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]struct{ body, want string }{
		"without a version": {`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"thermostat.set","arguments":{"celsius":20}}}`, `"structuredContent":{"target":20}`},
		"stateless":         {`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"thermostat.set","arguments":{"celsius":20},` + modern + `}}`, `"structuredContent":{"target":20}`},
		"initialize":        {initialize, `"protocolVersion":"2025-11-25"`},
		"discover":          {`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modern + `}}`, `"supportedVersions":["2026-07-28"`},
		"list":              {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"name":"thermostat.set"`},
		"resource":          {`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"` + secretPlans + `"}}`, "rule the world"},
		"no JSON":           {`{`, `-32700`},
		"an answer":         {`{"jsonrpc":"2.0","id":1,"result":{}}`, `-32600`},
		"a batch":           {`[` + ping + `]`, `-32600`},
		"no method":         {`{"jsonrpc":"2.0","id":1}`, `-32600`},
		"an odd id":         {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `-32600`},
		"no such level":     {`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":1}}`, `-32602`},
		"no such method":    {`{"jsonrpc":"2.0","id":1,"method":"x"}`, `-32601`},
		"a subscription":    {`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + modern + `}}`, `-32601`},
		"too much":          {`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 2<<20) + `"}`, `"1004"`},
	} {
		t.Run(name, func(t *testing.T) {
			back := w.take(t.Context(), test.body)
			if len(back) != 1 || !strings.Contains(back[0], test.want) {
				t.Errorf("answered %.2000s", back)
			}
			if !json.Valid([]byte(back[0])) {
				t.Errorf("not JSON: %s", back[0])
			}
		})
	}
	for _, quiet := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
	} {
		if back := w.take(t.Context(), quiet); len(back) != 0 {
			t.Errorf("%s was answered: %s", quiet, back)
		}
	}
}

func TestSingleCallsTellTheirProgressAndAreCancelledByAnotherMessage(t *testing.T) {
	for name, cancel := range map[string]func(w *world, end context.CancelFunc){
		"message": func(w *world, _ context.CancelFunc) {
			w.take(context.Background(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)
		},
		"deadline": func(_ *world, end context.CancelFunc) { end() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ctx, end := context.WithCancel(t.Context())
			defer end()
			begun := make(chan string, 8)
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.Take(ctx, mcpdoor.Message{
					Principal: &protocol.Principal{Kind: protocol.KindAgent, ID: "ada"}, Client: "c1",
					Body:  []byte(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"wait.here","_meta":{"progressToken":9}}}`),
					Reply: func(b []byte) { begun <- string(b) },
				})
			}()
			select {
			case p := <-begun:
				if !strings.Contains(p, `"progressToken":9`) {
					t.Errorf("progress: %s", p)
				}
			case <-time.After(bridgetest.Patience):
				t.Fatal("no progress")
			}
			if back := w.take(ctx, `{"jsonrpc":"2.0","id":"x","method":"ping"}`); len(back) != 1 || !strings.Contains(back[0], "under way") {
				t.Errorf("the same id again: %s", back)
			}
			cancel(w, end)
			select {
			case <-done:
			case <-time.After(bridgetest.Patience):
				t.Fatal("the call goes on")
			}
			<-w.gone
		})
	}
}

func FuzzSingleMessages(f *testing.F) {
	for _, seed := range []string{initialize, ping, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"camera.look","arguments":{}}}`, `[]`, `{"id":1e400}`} {
		f.Add([]byte(seed))
	}
	d := mcpdoor.New(mcpdoor.Options{Catalogue: tools.New(&source{tools: map[string][]*tools.Tool{}}), Executor: &tools.Executor{}, Authenticate: authenticate})
	f.Fuzz(func(t *testing.T, body []byte) {
		answers := 0
		d.Take(t.Context(), mcpdoor.Message{
			Principal: &protocol.Principal{Kind: protocol.KindAgent, ID: "ada"}, Body: body,
			Reply: func(b []byte) {
				answers++
				if !json.Valid(b) {
					t.Errorf("%q was answered with %q", body, b)
				}
			},
		})
		if answers > 1 {
			t.Errorf("%q has %d answers", body, answers)
		}
	})
}
