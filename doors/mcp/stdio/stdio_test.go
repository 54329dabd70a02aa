package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A bridge is an MCP endpoint that wants a secret.
type bridge struct {
	*httptest.Server
	mcp     *sdk.Server
	handler atomic.Pointer[http.Handler]
	gone    chan struct{} // gets a value when a call of wait is cancelled
	deleted atomic.Int32
}

func newBridge(t *testing.T) *bridge {
	t.Helper()
	b := &bridge{gone: make(chan struct{}, 8)}
	b.restart()
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hush" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"who are you?"}}`)
			return
		}
		if r.Method == http.MethodDelete {
			b.deleted.Add(1)
		}
		(*b.handler.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		for session := range b.mcp.Sessions() {
			_ = session.Close()
		}
		b.CloseClientConnections()
		b.Close()
	})
	return b
}

// restart makes the bridge forget all sessions.
func (b *bridge) restart() {
	if b.mcp != nil {
		for session := range b.mcp.Sessions() {
			_ = session.Close()
		}
	}
	b.mcp = sdk.NewServer(&sdk.Implementation{Name: "b", Version: "1"}, nil)
	sdk.AddTool(b.mcp, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, a struct{ Text string }) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Text}}}, nil, nil
	})
	sdk.AddTool(b.mcp, &sdk.Tool{Name: "wait"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
		<-ctx.Done()
		b.gone <- struct{}{}
		return nil, nil, ctx.Err()
	})
	b.mcp.AddResource(&sdk.Resource{URI: "note:///ä", Name: "n"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{Text: "hi"}}}, nil
	})
	server := b.mcp
	get := func(*http.Request) *sdk.Server { return server }
	stateful := sdk.NewStreamableHTTPHandler(get, nil)
	stateless := sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(versionHeader) >= firstStateless {
			if r.Header.Get(nameHeader) == headerText("note:///ä") {
				r.Header.Set(nameHeader, "note:///ä")
			}
			stateless.ServeHTTP(w, r)
			return
		}
		stateful.ServeHTTP(w, r)
	})
	b.handler.Store(&handler)
}

// A side is the client's side of a run.
type side struct {
	in    *io.PipeWriter
	out   *bufio.Reader
	read  *io.PipeReader
	ended chan error
}

func run(t *testing.T, b *bridge, secret string) *side {
	t.Helper()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	transport := &http.Transport{}
	s := &side{in: inWrite, out: bufio.NewReader(outRead), read: outRead, ended: make(chan error, 1)}
	go func() {
		s.ended <- Run(context.Background(), Options{
			Endpoint: b.URL, HTTP: &http.Client{Transport: transport}, In: inRead, Out: outWrite,
			Identify: func(_ context.Context, h http.Header) error {
				h.Set("Authorization", "Bearer "+secret)
				return nil
			},
		})
		_ = outWrite.Close()
	}()
	t.Cleanup(func() {
		_ = inWrite.Close()
		go func() { _, _ = io.Copy(io.Discard, s.read) }() // whatever else is said
		select {
		case err := <-s.ended:
			if err != nil {
				t.Errorf("ended with %v", err)
			}
		case <-time.After(eventually.Patience):
			t.Error("does not end with its input")
		}
		transport.CloseIdleConnections()
	})
	return s
}

func (s *side) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (s *side) hear(t *testing.T) string {
	t.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid([]byte(line)) {
		t.Fatalf("not JSON: %q", line)
	}
	return line
}

// connect runs the SDK's client.
func (s *side) connect(t *testing.T, version string, options *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, options).Connect(t.Context(),
		&sdk.IOTransport{Reader: io.NopCloser(s.out), Writer: s.in}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func echo(t *testing.T, c *sdk.ClientSession, text string) error {
	t.Helper()
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"Text": text}})
	if err == nil && r.Content[0].(*sdk.TextContent).Text != text {
		return fmt.Errorf("echo said %v", r.Content[0])
	}
	return err
}

func TestMessagesAreCarriedBothWays(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			b := newBridge(t)
			changed := make(chan struct{}, 4)
			steps := make(chan struct{}, 4)
			c := run(t, b, "hush").connect(t, version, &sdk.ClientOptions{
				ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
				ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { steps <- struct{}{} },
			})
			if got := c.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("version %s", got)
			}
			if err := echo(t, c, "line\nbreak"); err != nil {
				t.Error(err)
			}
			if r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "note:///ä"}); err != nil || r.Contents[0].Text != "hi" {
				t.Errorf("read: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				params := &sdk.CallToolParams{Name: "wait", Arguments: map[string]any{}}
				params.SetProgressToken("p")
				_, err := c.CallTool(ctx, params)
				done <- err
			}()
			<-steps
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled call: %v", err)
			}
			select {
			case <-b.gone:
			case <-time.After(eventually.Patience):
				t.Error("the call goes on at the bridge")
			}
			b.mcp.AddTool(&sdk.Tool{Name: "new", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
			select {
			case <-changed:
			case <-time.After(eventually.Patience):
				t.Error("word of a change does not arrive")
			}
		})
	}
}

func TestASessionIsOpenedAnewWhenTheBridgeHasForgottenIt(t *testing.T) {
	b := newBridge(t)
	c := run(t, b, "hush").connect(t, "2025-11-25", nil)
	if err := echo(t, c, "before"); err != nil {
		t.Fatal(err)
	}
	b.restart()
	for i := range 3 {
		if err := echo(t, c, fmt.Sprint("after ", i)); err != nil {
			t.Error(err)
		}
	}
}

func TestTheSessionEndsWithTheInput(t *testing.T) {
	b := newBridge(t)
	s := run(t, b, "hush")
	s.say(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if line := s.hear(t); !strings.Contains(line, "protocolVersion") {
		t.Errorf("initialize: %s", line)
	}
	s.say(t, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	_ = s.in.Close()
	if line := s.hear(t); !strings.Contains(line, `"echo"`) {
		t.Errorf("what was asked before the end: %s", line)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	s.ended <- nil
	if b.deleted.Load() != 1 {
		t.Errorf("the session was ended %d times", b.deleted.Load())
	}
}

func TestWhatGoesWrongIsAnswered(t *testing.T) {
	b := newBridge(t)
	stranger := run(t, b, "wrong")
	stranger.say(t, `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}`)
	if line := stranger.hear(t); !strings.Contains(line, `"id":"a"`) || !strings.Contains(line, "who are you?") {
		t.Errorf("a wrong secret: %s", line)
	}
	stranger.say(t, `nonsense`)
	if line := stranger.hear(t); !strings.Contains(line, "-32700") {
		t.Errorf("no JSON: %s", line)
	}
	b.CloseClientConnections()
	b.Close()
	stranger.say(t, `{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	if line := stranger.hear(t); !strings.Contains(line, `"id":7`) || !strings.Contains(line, "cannot be reached") {
		t.Errorf("no bridge: %s", line)
	}
}

func TestThereIsLittleToSayBeforeASession(t *testing.T) {
	b := newBridge(t)
	s := run(t, b, "hush")
	for _, test := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","id":"p","method":"ping"}`, `{"jsonrpc":"2.0","id":"p","result":{}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "initialize comes first"},
		{`[{"jsonrpc":"2.0","id":2,"method":"ping"}]`, "-32600"},
		{`5`, "-32600"},
	} {
		s.say(t, test.line)
		if got := s.hear(t); !strings.Contains(got, test.want) {
			t.Errorf("%s was answered with %s", test.line, got)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{}}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, ok := read(line)
		if !ok {
			return
		}
		h := http.Header{}
		m.headers(h, session{id: "s", version: "v"})
		for name, values := range h {
			for _, v := range values {
				if strings.ContainsAny(v, "\r\n\x00") {
					t.Errorf("%q makes header %s %q", line, name, v)
				}
			}
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add("event: message\ndata: {}\n\ndata: a\ndata: b\n\n: ok\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		_ = events(strings.NewReader(stream), 1<<16, func(data []byte) {
			if len(data) > 1<<16 {
				t.Errorf("an event of %d bytes", len(data))
			}
		})
	})
}
