package mcp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	ping       = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	modern     = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
)

// open opens a session and returns a client in it.
func (w *world) open(t *testing.T, who string) *raw {
	t.Helper()
	c := &raw{t: t, url: w.url, who: who}
	r := c.send("POST", initialize)
	id := r.header.Get("Mcp-Session-Id")
	if r.status != http.StatusOK || id == "" {
		t.Fatalf("initialize: %d %s", r.status, r.body)
	}
	c.headers = map[string]string{"Mcp-Session-Id": id, "Mcp-Protocol-Version": "2025-11-25"}
	if r := c.send("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.status != http.StatusAccepted {
		t.Fatalf("initialized: %d %s", r.status, r.body)
	}
	return c
}

func TestStrangersAreChallenged(t *testing.T) {
	w := newWorld(t)
	for who, want := range map[string]string{"": "resource_metadata=", "forged": `error="invalid_token"`} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			r := (&raw{t: t, url: w.url, who: who}).send(method, initialize)
			if challenge := r.header.Get("WWW-Authenticate"); r.status != http.StatusUnauthorized || !strings.HasPrefix(challenge, "Bearer ") || !strings.Contains(challenge, want) {
				t.Errorf("%s of %q: %d %s", method, who, r.status, challenge)
			}
			if r.Error == nil || r.Result != nil {
				t.Errorf("%s of %q: %s", method, who, r.body)
			}
		}
	}
}

func TestBadInputIsAnsweredPrecisely(t *testing.T) {
	w := newWorld(t, func(o *mcpdoor.Options) { o.MaxBytes = 4096 })
	session := w.open(t, "ada").headers
	modernHeaders := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "camera.look"}
	for name, test := range map[string]struct {
		headers map[string]string
		body    string
		status  int
		code    int
		text    string
	}{
		"no JSON":                      {session, `{"jsonrpc":`, 400, -32700, "not JSON"},
		"nothing":                      {session, ``, 400, -32700, "not JSON"},
		"no JSON-RPC":                  {session, `{"hello":"world"}`, 400, -32600, ""},
		"another version of JSON-RPC":  {session, `{"jsonrpc":"1.0","id":1,"method":"ping"}`, 400, -32600, ""},
		"a method that is not there":   {session, `{"jsonrpc":"2.0","id":7,"method":"tools/break"}`, 200, -32601, "tools/break"},
		"neither method nor result":    {session, `{"jsonrpc":"2.0","id":7}`, 400, -32600, "method"},
		"a method of another form":     {session, `{"jsonrpc":"2.0","id":7,"method":5}`, 400, -32600, "string"},
		"an id that is null":           {session, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, -32600, "id"},
		"an id that is a fraction":     {session, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, -32600, "id"},
		"an id that is too large":      {session, `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, 400, -32600, "id"},
		"an id of another form":        {session, `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, 400, -32600, "id"},
		"params of another form":       {session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}`, 200, -32602, "must be an object"},
		"a long name of another form":  {session, `{"jsonrpc":"2.0","id":7,"method":"` + strings.Repeat("x", 100) + `","params":{"name":5}}`, 200, -32602, "params of " + strings.Repeat("x", 64) + "…"},
		"a param of another form":      {session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":5}}`, 200, -32602, "params of tools/call"},
		"no params":                    {session, `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, 200, -32602, "name"},
		"no resource":                  {session, `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{}}`, 200, -32602, "uri"},
		"a level that is none":         {session, `{"jsonrpc":"2.0","id":7,"method":"logging/setLevel","params":{"level":"loud"}}`, 200, -32602, "debug"},
		"a cursor that is none":        {session, `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"!"}}`, 200, -32602, "cursor"},
		"a cursor made up":             {session, `{"jsonrpc":"2.0","id":7,"method":"prompts/list","params":{"cursor":"bWFkZXVw"}}`, 200, -32602, "cursor"},
		"a cursor behind the end":      {session, `{"jsonrpc":"2.0","id":7,"method":"resources/templates/list","params":{"cursor":"x"}}`, 200, -32602, "cursor"},
		"initialize once more":         {session, initialize, 400, -32600, "already"},
		"no session":                   {nil, ping, 400, -32600, "Mcp-Session-Id"},
		"a later version":              {map[string]string{"Mcp-Protocol-Version": "2099-01-01"}, ping, 400, -32600, "version"},
		"a batch":                      {session, `[` + ping + `,` + ping + `]`, 400, -32600, "batching"},
		"too much":                     {session, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":"` + strings.Repeat("x", 5000) + `"}}}`, 413, -32000, "4096"},
		"another version":              {map[string]string{"Mcp-Protocol-Version": "1999-01-01"}, ping, 400, -32600, "version"},
		"a session that is not there":  {map[string]string{"Mcp-Session-Id": "nope"}, ping, 404, -32600, "session"},
		"another type":                 {map[string]string{"Content-Type": "text/plain"}, ping, 415, -32600, "application/json"},
		"a client that takes no event": {map[string]string{"Accept": "application/json"}, initialize, 400, -32600, "event-stream"},
		"headers that tell otherwise":  {modernHeaders, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"door.open",` + modern + `}}`, 400, -32020, "Mcp-Name"},
		"a version in the body alone":  {nil, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modern + `}}`, 400, -32020, "header"},
		"a method of sessions":         {map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "logging/setLevel"}, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{` + modern + `}}`, 404, -32601, "setLevel"},
		"another method of sessions":   {map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "resources/subscribe"}, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{` + modern + `}}`, 404, -32601, "resources/subscribe"},
		"a method that was removed":    {map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/break"}, `{"jsonrpc":"2.0","id":1,"method":"tools/break","params":{` + modern + `}}`, 404, -32601, "tools/break"},
	} {
		t.Run(name, func(t *testing.T) {
			r := (&raw{t: t, url: w.url, who: "ada", headers: test.headers}).send("POST", test.body)
			if r.status != test.status {
				t.Errorf("status %d, want %d: %s", r.status, test.status, r.body)
			}
			if r.Error == nil || test.code != 0 && r.Error.Code != test.code || !strings.Contains(r.Error.Message, test.text) {
				t.Errorf("answered %s", r.body)
			}
		})
	}
	c := &raw{t: t, url: w.url, who: "ada", headers: session}
	if r := c.send("POST", ping); r.status != http.StatusOK || string(r.Result) != "{}" {
		t.Errorf("after all that: %d %s", r.status, r.body)
	}
	if r := c.send("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`); r.status != http.StatusAccepted {
		t.Errorf("cancelling what is not there: %d %s", r.status, r.body)
	}
	for _, unknown := range []map[string]string{session, {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "notifications/whatever"}} {
		c := &raw{t: t, url: w.url, who: "ada", headers: unknown}
		if r := c.send("POST", `{"jsonrpc":"2.0","method":"notifications/whatever","params":{`+modern+`}}`); r.status != http.StatusAccepted || r.body != "" {
			t.Errorf("a notification that nobody knows: %d %s", r.status, r.body)
		}
	}
	if r := c.send("PUT", ping); r.status != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", r.status)
	}
}

func TestASessionIsItsOpenersAlone(t *testing.T) {
	w := newWorld(t)
	ada := w.open(t, "ada")
	eve := &raw{t: t, url: w.url, who: "eve", headers: ada.headers}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		if r := eve.send(method, ping); r.status != http.StatusForbidden {
			t.Errorf("%s in somebody else's session: %d %s", method, r.status, r.body)
		}
	}
	if r := ada.send("POST", ping); r.status != http.StatusOK {
		t.Errorf("the session is lost to its opener: %d %s", r.status, r.body)
	}
	if r := ada.send("DELETE", ""); r.status != http.StatusNoContent {
		t.Errorf("DELETE: %d", r.status)
	}
	if r := ada.send("POST", ping); r.status != http.StatusNotFound {
		t.Errorf("after its end: %d %s", r.status, r.body)
	}
}

func TestSessionsAndRequestsAreBounded(t *testing.T) {
	w := newWorld(t, func(o *mcpdoor.Options) { o.MaxSessions = 8; o.MaxRequests = 8 })
	w.open(t, "ada")
	w.open(t, "ada")
	r := (&raw{t: t, url: w.url, who: "ada"}).send("POST", initialize)
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || r.ID != 1.0 {
		t.Errorf("a third session: %d %s", r.status, r.body)
	}
	eve := w.open(t, "eve")
	c := w.connect(t, "bob", "2026-07-28", nil)
	for range 2 {
		go func() { _, _ = c.CallTool(t.Context(), &sdk.CallToolParams{Name: "wait.here"}) }()
	}
	bob := &raw{t: t, url: w.url, who: "bob"}
	eventually.Holds(t, "somebody with too many requests is refused", func() bool {
		return bob.send("POST", initialize).status == http.StatusServiceUnavailable
	})
	if r := eve.send("POST", ping); r.status != http.StatusOK {
		t.Errorf("somebody else: %d %s", r.status, r.body)
	}
}

func TestStreamsEndWithTheCredential(t *testing.T) {
	w := newWorld(t)
	brief := w.open(t, "brief")
	if r := brief.send("GET", ""); r.status != http.StatusOK { // or it never ends
		t.Errorf("the stream ended: %d %s", r.status, r.body)
	}
}

func TestCallsUnderWayDoNotKeepTheDoorFromClosing(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t) // which is closed at the end
			begun := make(chan struct{}, 4)
			c := w.connect(t, "ada", version, &sdk.ClientOptions{
				ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { begun <- struct{}{} },
			})
			ctx := context.WithoutCancel(t.Context())
			go func() {
				params := &sdk.CallToolParams{Name: "wait.here"}
				params.SetProgressToken(1)
				_, _ = c.CallTool(ctx, params)
			}()
			<-begun
			w.stop()
			select {
			case <-w.gone:
			case <-time.After(bridgetest.Patience):
				t.Error("the call goes on")
			}
		})
	}
}
