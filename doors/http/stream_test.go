package http

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// progress emits events with the data and then succeeds.
func progress(events ...string) *scripted {
	return &scripted{answer: func(_ context.Context, in commands.Inbound, req *protocol.Request) *protocol.Response {
		for i, data := range events {
			in.Emit(&protocol.Event{Version: protocol.Version, ID: req.ID, Name: "task.progress", Seq: uint64(i + 1), Data: []byte(data)})
		}
		return succeeded(req, `{"ok":true}`)
	}}
}

func TestEventStream(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/api/v1/commands/test.run": "{}",
		"/api/v1/commands":          envelope("s-1", "test.run", "{}"),
	} {
		router := progress(`{"percent":10}`, "{\n\"percent\":\r\n90}")
		_, server := serve(t, Options{Router: router})
		got := do(t, server, "POST", path, body, "Idempotency-Key", "s-1", "Accept", "application/json, text/event-stream")
		if got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %d %s", path, got.status, got.header.Get("Content-Type"))
		}
		blocks := strings.Split(strings.TrimSpace(got.body), "\n\n")
		if len(blocks) != 3 {
			t.Fatalf("%s: %q", path, got.body)
		}
		for i, want := range []string{`"percent":10`, `90}`, `{"ok":true}`} {
			name, data, _ := strings.Cut(blocks[i], "\ndata: ")
			wantName := "event: task.progress"
			if i == 2 {
				wantName = "event: response"
			}
			if name != wantName || !strings.Contains(data, want) || strings.ContainsAny(data, "\r\n") || !strings.Contains(data, `"id":"s-1"`) {
				t.Errorf("%s: event %d is %q", path, i, blocks[i])
			}
		}
		if path != "/api/v1/commands" && !router.last(t).req.Metadata.Events {
			t.Error("the command was not told that events are wanted")
		}
	}
}

func TestEventStreamIsRefusedBeforeItBegins(t *testing.T) {
	t.Parallel()
	_, server := serve(t, Options{Authenticate: withKey})
	got := do(t, server, "POST", "/api/v1/commands/test.run", "{}", "Accept", "text/event-stream")
	if got.status != 401 || got.code(t) != "2001" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestEventsComeAsTheyHappen(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	router := &scripted{answer: func(_ context.Context, in commands.Inbound, req *protocol.Request) *protocol.Response {
		in.Emit(&protocol.Event{Version: protocol.Version, ID: req.ID, Name: "task.delta\n", Data: []byte(`{}`)})
		<-leave
		return succeeded(req, "{}")
	}}
	_, server := serve(t, Options{Router: router})
	req, _ := http.NewRequest("POST", server.URL+"/api/v1/commands/test.run", strings.NewReader("{}"))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || lines.Text() != "event: task.delta?" { // before the command is done
		t.Errorf("first line %q", lines.Text())
	}
	close(leave)
	for lines.Scan() {
	}
}

func TestReaderOfAStreamWhoLeavesEndsTheWait(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}), make(chan struct{})
	router := &scripted{answer: func(ctx context.Context, _ commands.Inbound, req *protocol.Request) *protocol.Response {
		close(entered)
		<-ctx.Done()
		close(left)
		return failed(req, protocol.Errorf(protocol.Cancelled, "gone"))
	}}
	_, server := serve(t, Options{Router: router})
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/api/v1/commands/test.run", strings.NewReader("{}"))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	go func() { <-entered; cancel() }()
	if resp, err := server.Client().Do(req); err == nil {
		resp.Body.Close()
	}
	select {
	case <-left:
	case <-time.After(eventually.Patience):
		t.Error("still waiting")
	}
}

func TestFloodOfEventsCutsTheStream(t *testing.T) {
	t.Parallel()
	emitted := make(chan struct{})
	router := &scripted{answer: func(ctx context.Context, in commands.Inbound, req *protocol.Request) *protocol.Response {
		data := []byte(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
		for range 64 { // more than a socket and the queue hold
			in.Emit(&protocol.Event{Version: protocol.Version, ID: req.ID, Name: "task.delta", Data: data})
		}
		close(emitted)
		<-ctx.Done()
		return succeeded(req, "{}")
	}}
	_, server := serve(t, Options{Router: router})
	req, _ := http.NewRequest("POST", server.URL+"/api/v1/commands/test.run", strings.NewReader("{}"))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	<-emitted // nothing is read before
	buf := make([]byte, 1<<16)
	for err == nil {
		_, err = resp.Body.Read(buf)
	}
	if err.Error() == "EOF" {
		t.Error("the stream ended as if it were whole")
	}
}
