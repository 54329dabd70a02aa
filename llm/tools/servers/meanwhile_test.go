package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func TestPiecesKeepTheirOrder(t *testing.T) {
	r := read(CallParams{}, &sdk.CallToolResult{Content: []sdk.Content{
		&sdk.TextContent{Text: "before"},
		&sdk.ImageContent{MIMEType: "image/png", Data: []byte("a")},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///n", MIMEType: "text/plain", Text: "between"}},
		&sdk.ResourceLink{URI: "file:///link", Name: "a link"},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///z", MIMEType: "application/zip", Blob: []byte("four")}},
		&sdk.TextContent{Text: "after"},
	}})
	want := []Content{
		{Kind: "text", Text: "before"},
		{Kind: "image", MIMEType: "image/png", Data: "YQ=="},
		{Kind: "resource", URI: "file:///n", MIMEType: "text/plain", Text: "between"},
		{Kind: "resource_link", URI: "file:///link", Name: "a link"},
		{Kind: "resource", URI: "file:///z", MIMEType: "application/zip", Data: "Zm91cg=="},
		{Kind: "text", Text: "after"},
	}
	if !reflect.DeepEqual(r.Content, want) {
		t.Errorf("got  %+v\nwant %+v", r.Content, want)
	}
	if r := read(CallParams{}, &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "one"}}}); r.Content != nil || r.Text != "one" {
		t.Errorf("one text: %+v", r)
	}
	long := strings.Repeat("x", maxText-2)
	r = read(CallParams{}, &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: long}, &sdk.TextContent{Text: "yyyy"}}})
	if n := len(r.Content[0].Text) + len(r.Content[1].Text); n > maxText+len("…") {
		t.Errorf("%d bytes of text are taken", n)
	}
}

// chatty is a server whose tool says things meanwhile, and ends when they were
// heard.
func chatty(heard chan struct{}) *sdk.Server {
	s := notes("chatty")
	sdk.AddTool(s, &sdk.Tool{Name: "work"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "debug", Data: "not for callers"})
		_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Logger: "disk", Data: map[string]any{"free": 3}})
		_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 7, Message: "seven"})
		select {
		case <-heard:
		case <-ctx.Done():
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("a")}, &sdk.TextContent{Text: "see above"}}}, nil, nil
	})
	return s
}

func TestWhatAServerSaysMeanwhileComesThrough(t *testing.T) {
	t.Setenv("NOTES_TOKEN", "hush")
	heard := make(chan struct{})
	w := start(t, Config{Name: "notes", URL: serve(t, chatty(heard)), Headers: map[string]string{"Authorization": "Bearer env:NOTES_TOKEN"}})
	eventually.Holds(t, "the tools are there", func() bool { return strings.Contains(w.offers(t), "mcp.notes.work") })
	said := make(chan string, 8)
	var once sync.Once
	request := protocol.Request{
		Version: protocol.Version, ID: protocol.NewID(), Command: "mcp.tool.call", Params: json.RawMessage(`{"server":"notes","tool":"work"}`),
		Metadata: protocol.Metadata{Timeout: protocol.DefaultTimeout, Events: true},
	}
	answer := w.router.Handle(t.Context(), commands.Inbound{Principal: w.env.Principal, Body: request.Append(nil), Emit: func(e *protocol.Event) {
		said <- fmt.Sprintf("%s %s", e.Name, e.Data)
		if len(said) == 2 {
			once.Do(func() { close(heard) })
		}
	}})
	if answer.Err != nil {
		t.Fatal(answer.Err)
	}
	got := []string{<-said, <-said}
	for _, want := range []string{`task.log {"level":"warning","logger":"disk","text":"{\"free\":3}"}`, `task.progress {"percent":0,"message":"seven","progress":7}`} {
		if got[0] != want && got[1] != want {
			t.Errorf("told %q, not %s", got, want)
		}
	}
	var r CallResult
	if err := json.Unmarshal(answer.Result, &r); err != nil || len(r.Content) != 3 || r.Content[1].Kind != "image" || r.Content[2].Text != "see above" {
		t.Errorf("the result is %+v, %v", r, err)
	}
}

func TestNobodyHearsWhatIsLoggedForOthers(t *testing.T) {
	l := newConnection(New(Options{Table: recordstest.New[Approved]()}), &Config{Name: "notes"})
	told := map[string]int{}
	hear := func(id string) *underway {
		return &underway{protocol.Party{ID: id}, func(string, any) { told[id]++ }}
	}
	log := func() { l.logged(&sdk.LoggingMessageParams{Level: "info", Data: "x"}) }
	log()
	stop := l.follow("1", hear("ada"))
	l.follow("2", hear("ada"))
	log()
	end := l.follow("3", hear("eve"))
	log()
	end()
	log() // perhaps about eve's call
	stop()
	l.alone()
	l.follow("4", hear("eve"))
	l.calls = map[string]*underway{"4": l.calls["4"]}
	log()
	if told["ada"] != 2 || told["eve"] != 1 {
		t.Errorf("told %v times", told)
	}
}

// Two bridges of a cluster see a server for the first time at once. What an operator
// has decided at the other one stands, although this one has not heard of it yet.
func TestADecisionAtAnotherBridgeIsNotOverwritten(t *testing.T) {
	t.Setenv("NOTES_TOKEN", "hush")
	table := recordstest.New[Approved]()
	decided := &Approved{Tools: map[string]string{}, By: "boss", At: 1}
	table.Before(func(key string) {
		if _, err := table.Put(t.Context(), key, decided); err != nil {
			t.Error(err)
		}
	})
	w := startWith(t, table, Config{Name: "notes", URL: serve(t, notes("notes")), Headers: map[string]string{"Authorization": "Bearer env:NOTES_TOKEN"}, Trusted: true})
	l, err := w.connection(w.env.Principal, "notes")
	if err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the server is there", func() bool {
		_, err := l.current()
		return err == nil
	})
	if now, _, _ := table.Get("notes"); !reflect.DeepEqual(now, decided) {
		t.Errorf("the decision is %+v", now)
	}
	if offered := w.offers(t); offered != "" {
		t.Errorf("offered are %s", offered)
	}
}

// Two operators approve of different tools at once, at two bridges.
func TestApprovalsOfTwoOperatorsAddUp(t *testing.T) {
	t.Setenv("NOTES_TOKEN", "hush")
	w := start(t, Config{Name: "notes", URL: serve(t, notes("notes")), Headers: map[string]string{"Authorization": "Bearer env:NOTES_TOKEN"}, Approve: ApproveEach})
	eventually.Holds(t, "the tools are known", func() bool { return w.view(t).Revision != "" && w.view(t).State == Connected })
	approve := func(tool string) ApproveResult {
		result, err := w.Approve(t.Context(), &commands.Call{Principal: w.env.Principal}, ApproveParams{Server: "notes", Revision: w.view(t).Revision, Tools: []string{tool}})
		if err != nil {
			t.Error(err)
		}
		return result
	}
	w.table.Before(func(string) { approve("read") })
	if got := strings.Join(approve("fail").Approved, " "); got != "fail read" {
		t.Errorf("approved are %s", got)
	}
}
