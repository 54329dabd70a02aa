package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/commands"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant/granttest"
)

// A ledger keeps tasks in memory, as the bridge does in its store.
type ledger struct {
	mu    sync.Mutex
	tasks map[protocol.TaskID]*entry
	said  []string // decisions and answers
	full  bool
	wg    sync.WaitGroup
}

type entry struct {
	mcpdoor.Task
	who    string
	marks  int
	cancel context.CancelCauseFunc
}

var _ mcpdoor.Tasks = (*ledger)(nil)

func newLedger() *ledger { return &ledger{tasks: map[protocol.TaskID]*entry{}} }

func (l *ledger) add(who string, t mcpdoor.Task) {
	l.change(func() {
		if e := l.tasks[t.ID]; e != nil {
			e.Task = t
			e.marks++
			return
		}
		l.tasks[t.ID] = &entry{Task: t, who: who}
	})
}

func (l *ledger) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *ledger) Usable(_ context.Context, env tools.Environment) bool {
	return env.Principal.ID != "eve"
}

func (l *ledger) Start(_ context.Context, env tools.Environment, do mcpdoor.Work) (protocol.TaskID, error) {
	if l.full {
		return "", protocol.Errorf(protocol.Busy, "too many tasks")
	}
	id := protocol.TaskID(fmt.Sprintf("task-%d", len(l.tasks)+1))
	ctx, cancel := context.WithCancelCause(context.Background())
	l.add(env.Principal.ID, mcpdoor.Task{ID: id, Begun: time.Now(), Changed: time.Now()})
	l.change(func() { l.tasks[id].cancel = cancel })
	l.wg.Go(func() {
		answer, err := do(ctx, func(p tools.Progress) {
			l.change(func() { l.tasks[id].Message = p.Message; l.tasks[id].marks++ })
		})
		l.change(func() {
			t := l.tasks[id]
			t.Answer, t.State, t.Changed, t.Kept = answer, mcpdoor.TaskDone, time.Now(), time.Hour
			if err != nil {
				t.State, t.Message = mcpdoor.TaskCancelled, err.Error()
			}
			if protocol.CodeOf(err) == protocol.Internal {
				t.State, t.Failure = mcpdoor.TaskFailed, protocol.AsError(err)
			}
			t.marks++
		})
	})
	return id, nil
}

func (l *ledger) Begun(r *tools.Result) (protocol.TaskID, bool) {
	return "run-1", r.Name == "run.start"
}

func (l *ledger) Get(_ context.Context, env tools.Environment, id protocol.TaskID) (*mcpdoor.Task, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tasks[id]
	if t == nil || t.who != env.Principal.ID {
		return nil, protocol.Errorf(protocol.NotFound, "there is no task %q of yours, or not any more", id)
	}
	shown := t.Task
	return &shown, nil
}

func (l *ledger) Mark(env tools.Environment, id protocol.TaskID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tasks[id]
	if t == nil || t.who != env.Principal.ID {
		return ""
	}
	return fmt.Sprint(t.State, t.marks)
}

func (l *ledger) Cancel(_ context.Context, _ tools.Environment, id protocol.TaskID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tasks[id]; t.cancel != nil {
		t.cancel(protocol.Errorf(protocol.Cancelled, "cancelled"))
	}
	l.said = append(l.said, "cancel "+string(id))
	return nil
}

func (l *ledger) Decide(_ context.Context, env tools.Environment, shown *mcpdoor.Approval, approve bool, reason string) error {
	l.change(func() {
		l.said = append(l.said, fmt.Sprint("decide ", env.Principal.ID, " ", shown.ID, " ", approve, " ", reason))
	})
	return nil
}

func (l *ledger) Reply(_ context.Context, _ tools.Environment, id protocol.TaskID, text string) error {
	l.change(func() { l.said = append(l.said, fmt.Sprint("reply ", id, " ", text)) })
	return nil
}

// spoken takes out what was said so far.
func (l *ledger) spoken() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := strings.Join(l.said, "\n")
	l.said = nil
	return said
}

// A shelf keeps calls that somebody has to agree to.
type shelf struct{ ledger *ledger }

func (s shelf) Keep(context.Context, tools.Environment, *chat.ToolCall, *tools.Question) tools.Result {
	return tools.Result{Status: tools.Waiting, Text: "it waits"}
}

func (s shelf) Park(_ context.Context, env tools.Environment, c *chat.ToolCall, q *tools.Question) (protocol.TaskID, error) {
	s.ledger.add(env.Principal.ID, mcpdoor.Task{
		ID: "parked", State: mcpdoor.TaskWaiting, Begun: time.Now(), Changed: time.Now(), Message: "it waits",
		Approval: &mcpdoor.Approval{ID: q.Approval, Nonce: "n1", Tool: c.Name, Arguments: c.Args, Why: "it is risky", Own: env.Principal.ID == "boss"},
	})
	return "parked", nil
}

// capable is the _meta of a client that knows of tasks and can do more besides.
func capable(more string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}` + more + `}}`
}

const (
	forms = `,"elicitation":{}`
	urls  = `,"elicitation":{"url":{}}`
)

// A taskAnswer is the answer to a call, or to a message about a task.
type taskAnswer struct {
	Result struct {
		Type          string `json:"resultType"`
		ID            string `json:"taskId"`
		Status        string `json:"status"`
		Message       string `json:"statusMessage"`
		TTL           *int64 `json:"ttlMs"`
		Poll          int64  `json:"pollIntervalMs"`
		Result        json.RawMessage
		InputRequests map[string]struct {
			Method string
			Params struct{ Mode, Message, URL string }
		} `json:"inputRequests"`
	} `json:"result"`
	Error *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
	text string
}

// asks sends one message as somebody, by a way without HTTP.
func (w *world) asks(t *testing.T, who, method, params string) *taskAnswer {
	t.Helper()
	return w.asksWithin(t.Context(), t, who, method, params)
}

func (w *world) asksWithin(ctx context.Context, t *testing.T, who, method, params string) *taskAnswer {
	t.Helper()
	var a taskAnswer
	w.Take(ctx, mcpdoor.Message{
		Principal: &protocol.Principal{Kind: protocol.KindOperator, ID: who}, Client: "c",
		Body:  []byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`),
		Reply: func(b []byte) { a.text = string(b) },
	})
	if a.text != "" {
		if err := json.Unmarshal([]byte(a.text), &a); err != nil {
			t.Fatalf("%s: %v", a.text, err)
		}
	}
	return &a
}

// slow takes as long as its argument says.
func slow(w *world) *tools.Tool {
	return &tools.Tool{
		Declaration: tools.Declaration{Name: "kiln.fire", Effect: commands.Act, Parameters: []tools.Parameter{{Name: "seconds", Kind: tools.Number, Required: true}}},
		Run: func(ctx context.Context, x *tools.Execution) (tools.Output, error) {
			seconds, _ := x.Arguments["seconds"].(float64)
			tools.TellProgress(ctx, tools.Progress{Percent: 10, Message: "heating"})
			select {
			case <-time.After(time.Duration(seconds) * time.Second / 2):
			case <-ctx.Done():
				w.gone <- struct{}{}
				return tools.Output{}, ctx.Err()
			}
			tools.TellProgress(ctx, tools.Progress{Percent: 60, Message: "cooling"})
			select {
			case <-time.After(time.Duration(seconds) * time.Second / 2):
				return tools.Output{Content: json.RawMessage(`{"fired":true}`)}, nil
			case <-ctx.Done():
				w.gone <- struct{}{}
				return tools.Output{}, ctx.Err()
			}
		},
	}
}

// quiet makes a door without a server, for tests whose clock is not real. It ends with
// the test.
func quiet(t *testing.T, l *ledger, change ...func(*mcpdoor.Options)) *world {
	w := &world{source: &source{tools: map[string][]*tools.Tool{}}, env: make(chan tools.Environment, 16), gone: make(chan struct{}, 16)}
	w.source.tools[""] = append(w.standard(), slow(w))
	o := mcpdoor.Options{
		Catalogue: tools.New(w.source), Executor: &tools.Executor{}, Authenticate: authenticate, Grants: new(granttest.Authority), Tasks: l,
	}
	for _, f := range change {
		f(&o)
	}
	w.Door = mcpdoor.New(o)
	t.Cleanup(func() {
		over, end := context.WithCancel(context.Background())
		end()
		_ = w.Run(over) // its goroutines leave
	})
	return w
}

// A client that waits for a minute and no longer gets the result of a call that
// takes longer.
func TestCallsThatTakeLongGoOnAsTasks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLedger()
		defer l.wg.Wait()
		w := quiet(t, l)
		began := time.Now()
		ctx, hangUp := context.WithTimeout(t.Context(), time.Minute)
		a := w.asksWithin(ctx, t, "ada", "tools/call", `"name":"kiln.fire","arguments":{"seconds":100},`+capable(""))
		hangUp()
		if a.Result.Type != "task" || a.Result.Status != "working" || a.Result.ID == "" || a.Result.Poll == 0 || !strings.Contains(a.text, `"ttlMs":null`) {
			t.Fatalf("the call was answered with %s", a.text)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		id := `"taskId":"` + a.Result.ID + `",`
		synctest.Wait()
		if a := w.asks(t, "ada", "tasks/get", id+capable("")); a.Result.Message != "heating" {
			t.Errorf("what the device said before there was a task: %s", a.text)
		}
		time.Sleep(55 * time.Second)
		if a := w.asks(t, "ada", "tasks/get", id+capable("")); a.Result.Type != "complete" || a.Result.Status != "working" || a.Result.Message != "cooling" {
			t.Errorf("after a minute: %s", a.text)
		}
		time.Sleep(time.Minute)
		got := w.asks(t, "ada", "tasks/get", id+capable(""))
		if got.Result.Status != "completed" || !strings.Contains(string(got.Result.Result), `"structuredContent":{"fired":true}`) || got.Result.TTL == nil {
			t.Errorf("at the end: %s", got.text)
		}
	})
}

func TestAFaultIsToldFromWhatAToolHasToSay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLedger()
		defer l.wg.Wait()
		w := quiet(t, l)
		breaks := func(name string, end func() (tools.Output, error)) string {
			w.source.add("", &tools.Tool{Declaration: tools.Declaration{Name: name, Effect: commands.Act}, Run: func(context.Context, *tools.Execution) (tools.Output, error) {
				time.Sleep(10 * time.Second)
				return end()
			}})
			a := w.asks(t, "ada", "tools/call", `"name":"`+name+`",`+capable(""))
			time.Sleep(10 * time.Second)
			return w.asks(t, "ada", "tasks/get", `"taskId":"`+a.Result.ID+`",`+capable("")).text
		}
		if got := breaks("kiln.break", func() (tools.Output, error) { panic("hot") }); !strings.Contains(got, `"status":"failed"`) || !strings.Contains(got, `"code":-32603`) || strings.Contains(got, "hot") {
			t.Errorf("a panic: %s", got)
		}
		if got := breaks("kiln.refuse", func() (tools.Output, error) {
			return tools.Output{}, protocol.Errorf(protocol.AgentOffline, "it is offline")
		}); !strings.Contains(got, `"status":"completed"`) || !strings.Contains(got, `"isError":true`) {
			t.Errorf("a refusal: %s", got)
		}
	})
}

func TestCallsAreTasksForThoseAloneWhoTakeThem(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLedger()
		defer l.wg.Wait()
		w := quiet(t, l)
		for name, ask := range map[string]func() *taskAnswer{
			"an older client": func() *taskAnswer {
				return w.asks(t, "ada", "tools/call", `"name":"kiln.fire","arguments":{"seconds":30}`)
			},
			"an older client that says so": func() *taskAnswer {
				return w.asks(t, "ada", "tools/call", `"name":"kiln.fire","arguments":{"seconds":30},`+strings.Replace(capable(""), "2026-07-28", "2025-11-25", 1))
			},
			"one that does not know them": func() *taskAnswer {
				return w.asks(t, "ada", "tools/call", `"name":"kiln.fire","arguments":{"seconds":30},`+modern)
			},
			"one that may not ask for them": func() *taskAnswer {
				return w.asks(t, "eve", "tools/call", `"name":"kiln.fire","arguments":{"seconds":30},`+capable(""))
			},
			"a short one": func() *taskAnswer {
				return w.asks(t, "ada", "tools/call", `"name":"kiln.fire","arguments":{"seconds":2},`+capable(""))
			},
			"one that cannot be kept": func() *taskAnswer {
				l.full = true
				defer func() { l.full = false }()
				return w.asks(t, "ada", "tools/call", `"name":"kiln.fire","arguments":{"seconds":30},`+capable(""))
			},
		} {
			if a := ask(); a.Result.Type == "task" || !strings.Contains(a.text, `{"fired":true}`) {
				t.Errorf("%s: %s", name, a.text)
			}
		}
		if len(l.tasks) != 0 {
			t.Errorf("there are tasks: %v", l.tasks)
		}
	})
}

func TestACallEndsWithItsClientUntilItIsATaskAndWithTheTaskThen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLedger()
		defer l.wg.Wait()
		w := quiet(t, l)
		ctx, hangUp := context.WithTimeout(t.Context(), time.Second)
		defer hangUp()
		if a := w.asksWithin(ctx, t, "ada", "tools/call", `"name":"kiln.fire","arguments":{"seconds":100},`+capable("")); a.text != "" || len(l.tasks) != 0 {
			t.Errorf("a client that is gone has a task: %s", a.text)
		}
		<-w.gone
		a := w.asks(t, "ada", "tools/call", `"name":"kiln.fire","arguments":{"seconds":100},`+capable(""))
		id := `"taskId":"` + a.Result.ID + `",`
		if c := w.asks(t, "ada", "tasks/cancel", id+capable("")); !strings.Contains(c.text, `"result":{"resultType":"complete"}`) {
			t.Errorf("cancel: %s", c.text)
		}
		<-w.gone
		synctest.Wait()
		if g := w.asks(t, "ada", "tasks/get", id+capable("")); g.Result.Status != "cancelled" {
			t.Errorf("cancelled: %s", g.text)
		}
	})
}

// asking has a call of door.open wait for an approval.
func asking(o *mcpdoor.Options) {
	o.Executor = &tools.Executor{Gate: func(_ context.Context, tool *tools.Tool, _ *tools.Execution) error {
		if tool.Name == "door.open" {
			return &tools.Question{Approval: "a1"}
		}
		return nil
	}}
	o.Keeper = shelf{o.Tasks.(*ledger)}
}

func TestACallThatWaitsForSomebodyIsATaskAtOnce(t *testing.T) {
	const call, get, update = `"name":"door.open","arguments":{"wide":true},`, `"taskId":"parked",`, `"taskId":"parked","inputResponses":`
	console := func(o *mcpdoor.Options) { o.URL = "https://bridge.example/mcp" }
	for name, test := range map[string]struct {
		who, client string
		change      func(*mcpdoor.Options)
		status      string
		asked       string // part of what is asked
		sent, said  string
	}{
		"a client that cannot ask": {who: "boss", change: console, status: "working"},
		"one whose user may decide": {
			who: "boss", client: forms, status: "input_required", asked: "\n{\n  \"wide\": true\n}",
			sent: `{"approval-a1-n1":{"action":"accept","content":{"decision":"approve","reason":"go"}}}`, said: "decide boss a1 true go",
		},
		"who denies":                 {who: "boss", client: forms, status: "input_required", sent: `{"approval-a1-n1":{"action":"accept","content":{"decision":"deny"}}}`, said: "decide boss a1 false "},
		"who declines":               {who: "boss", client: forms, status: "input_required", sent: `{"approval-a1-n1":{"action":"decline"}}`, said: "decide boss a1 false declined at the client"},
		"who closes the form":        {who: "boss", client: forms, status: "input_required", sent: `{"approval-a1-n1":{"action":"cancel"}}`},
		"the key of other arguments": {who: "boss", client: forms, status: "input_required", sent: `{"approval-a1-n0":{"action":"accept","content":{"decision":"approve"}}}`},
		"another approval's key":     {who: "boss", client: forms, status: "input_required", sent: `{"approval-a2-n1":{"action":"accept","content":{"decision":"approve"}}}`},
		"one whose user may not": {
			who: "ada", client: forms, change: console, status: "working",
			sent: `{"approval-a1-n1":{"action":"accept","content":{"decision":"approve"}}}`,
		},
		"one that can open the console": {
			who: "ada", client: urls, change: console, status: "input_required", asked: "https://bridge.example/approvals/a1",
			sent: `{"console-a1":{"action":"accept"},"approval-a1-n1":{"action":"accept","content":{"decision":"approve"}}}`,
		},
		"one that could, and does not know where it is": {who: "ada", client: urls, status: "working"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			changes := []func(*mcpdoor.Options){asking}
			if test.change != nil {
				changes = append(changes, test.change)
			}
			w := quiet(t, l, changes...)
			made := w.asks(t, test.who, "tools/call", call+capable(test.client))
			if made.Result.Type != "task" || made.Result.ID != "parked" || made.Result.Status != test.status || made.Result.InputRequests != nil {
				t.Errorf("the call: %s", made.text)
			}
			got := w.asks(t, test.who, "tasks/get", get+capable(test.client))
			if got.Result.Status != test.status || (test.status == "input_required") != (len(got.Result.InputRequests) == 1) {
				t.Errorf("the task: %s", got.text)
			}
			for _, r := range got.Result.InputRequests {
				if r.Method != "elicitation/create" || !strings.Contains(r.Params.Message+r.Params.URL, test.asked) {
					t.Errorf("asked: %+v", r)
				}
			}
			if test.sent == "" {
				return
			}
			if a := w.asks(t, test.who, "tasks/update", update+test.sent+","+capable(test.client)); !strings.Contains(a.text, `"result":{"resultType":"complete"}`) {
				t.Errorf("the update: %s", a.text)
			}
			if said := l.spoken(); said != test.said {
				t.Errorf("said %q, not %q", said, test.said)
			}
		})
	}
}

func TestLongArgumentsAreNotJudgedInAMessage(t *testing.T) {
	w := quiet(t, newLedger(), asking)
	a := w.asks(t, "boss", "tools/call", `"name":"door.open","arguments":{"why":"`+strings.Repeat("x", 5000)+`"},`+capable(forms))
	if a.Result.Status != "working" {
		t.Errorf("the task: %s", a.text)
	}
}

func TestATaskMayHaveAQuestionForItsUser(t *testing.T) {
	l := newLedger()
	w := quiet(t, l)
	l.add("ada", mcpdoor.Task{ID: "run-1", State: mcpdoor.TaskWaiting, Question: &mcpdoor.Question{Key: "turn-3", Text: "Which room?", Options: []string{"bath", "kitchen"}}})
	const id = `"taskId":"run-1",`
	if a := w.asks(t, "ada", "tasks/get", id+capable(forms)); a.Result.InputRequests["turn-3"].Params.Message != "Which room?" || !strings.Contains(a.text, `"enum":["bath","kitchen"]`) {
		t.Errorf("asked: %s", a.text)
	}
	for _, test := range []struct{ sent, said, wrong string }{
		{sent: `{"turn-3":{"action":"accept","content":{"answer":"bath"}}}`, said: "reply run-1 bath"},
		{sent: `{"turn-3":{"action":"decline"}}`, said: "cancel run-1"},
		{sent: `{"turn-2":{"action":"accept","content":{"answer":"bath"}}}`},
		{sent: `{}`},
		{sent: `{"turn-3":{"action":"accept"}}`, wrong: "must have an answer"},
		{sent: `{"turn-3":{"action":"perhaps"}}`, wrong: "accept, decline or cancel"},
		{sent: `{"turn-3":"bath"}`, wrong: "accept, decline or cancel"},
		{sent: `null`, wrong: "is missing"},
		{sent: `[]`, wrong: "another form"},
	} {
		a := w.asks(t, "ada", "tasks/update", id+`"inputResponses":`+test.sent+","+capable(forms))
		if test.wrong != "" && (a.Error == nil || a.Error.Code != -32602 || !strings.Contains(a.Error.Message, test.wrong)) {
			t.Errorf("%s: %s", test.sent, a.text)
		}
		if said := l.spoken(); said != test.said {
			t.Errorf("%s: said %q", test.sent, said)
		}
	}
}

func TestResultsThatBeginATaskAreOne(t *testing.T) {
	l := newLedger()
	l.add("ada", mcpdoor.Task{ID: "run-1"})
	w := quiet(t, l)
	w.source.add("", &tools.Tool{
		Declaration: tools.Declaration{Name: "run.start", Effect: commands.Act},
		Run: func(context.Context, *tools.Execution) (tools.Output, error) {
			return tools.Output{Content: json.RawMessage(`{"run_id":"run-1"}`)}, nil
		},
	})
	if a := w.asks(t, "ada", "tools/call", `"name":"run.start",`+capable("")); a.Result.Type != "task" || a.Result.ID != "run-1" {
		t.Errorf("the call: %s", a.text)
	}
}

// headersOf are those of a request about a task.
func headersOf(method, name string) map[string]string {
	return map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
}

func TestNobodyLearnsOfTasksOfOthers(t *testing.T) {
	l := newLedger()
	l.add("ada", mcpdoor.Task{ID: "secret", State: mcpdoor.TaskWaiting, Question: &mcpdoor.Question{Key: "k", Text: "Which?"}})
	w := newWorld(t, func(o *mcpdoor.Options) { o.Tasks = l })
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		var answers []string
		for _, id := range []string{"secret", "absent"} {
			c := &raw{t: t, url: w.url, who: "mallory", headers: headersOf(method, id)}
			r := c.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"taskId":"`+id+`","inputResponses":{"k":{"action":"accept","content":{"answer":"x"}}},`+capable(forms)+`}}`)
			if r.status != http.StatusBadRequest || r.Error == nil || r.Error.Code != -32602 {
				t.Errorf("%s of %s: %d %s", method, id, r.status, r.body)
			}
			answers = append(answers, strings.ReplaceAll(r.body, id, "ID"))
		}
		if answers[0] != answers[1] {
			t.Errorf("%s tells them apart: %s", method, answers)
		}
	}
	if said := l.spoken(); said != "" {
		t.Errorf("mallory did %s", said)
	}
}

func TestMessagesAboutTasksAreRefusedPrecisely(t *testing.T) {
	l := newLedger()
	l.add("ada", mcpdoor.Task{ID: "t1"})
	w := newWorld(t, func(o *mcpdoor.Options) { o.Tasks = l })
	get := func(more string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"taskId":"t1",` + more + `}}`
	}
	none := newWorld(t)
	for name, test := range map[string]struct {
		world   *world
		body    string
		headers map[string]string
		status  int
		code    int
		text    string
	}{
		"good":               {w, get(capable("")), headersOf("tasks/get", "t1"), 200, 0, `"status":"working"`},
		"no capability":      {w, get(modern), headersOf("tasks/get", "t1"), 400, -32021, `"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		"another name":       {w, get(capable("")), headersOf("tasks/get", "t2"), 400, -32020, "Mcp-Name"},
		"another method":     {w, get(capable("")), headersOf("tasks/cancel", "t1"), 400, -32020, "Mcp-Method"},
		"another version":    {w, get(capable("")), map[string]string{"Mcp-Protocol-Version": "2025-11-25", "Mcp-Method": "tasks/get", "Mcp-Name": "t1"}, 400, -32020, "Mcp-Protocol-Version"},
		"no id of a task":    {w, strings.Replace(get(capable("")), `"taskId":"t1",`, "", 1), headersOf("tasks/get", ""), 200, -32602, "params.taskId is missing"},
		"another form":       {w, strings.Replace(get(capable("")), `"t1"`, "[]", 1), headersOf("tasks/get", ""), 200, -32602, "another form"},
		"no such method":     {w, strings.Replace(get(capable("")), "tasks/get", "tasks/list", 1), headersOf("tasks/list", "t1"), 404, -32601, "tasks/list"},
		"a door without any": {none, get(capable("")), headersOf("tasks/get", "t1"), 404, -32601, "tasks/get"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &raw{t: t, url: test.world.url, who: "ada", headers: test.headers}
			r := c.send(http.MethodPost, test.body)
			code := 0
			if r.Error != nil {
				code = r.Error.Code
			}
			if r.status != test.status || code != test.code || !strings.Contains(r.body, test.text) || !strings.Contains(r.body, `"id":7`) {
				t.Errorf("answered %d %s", r.status, r.body)
			}
		})
	}
}

func TestTheExtensionIsAnnounced(t *testing.T) {
	w := newWorld(t, func(o *mcpdoor.Options) { o.Tasks = newLedger() })
	c := &raw{t: t, url: w.url, who: "ada", headers: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"}}
	if r := c.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+modern+`}}`); !strings.Contains(r.body, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
		t.Errorf("discovered: %s", r.body)
	}
}

// A call that tells its progress is answered on a stream, by another way.
func TestCallsThatTellTheirProgressBecomeTasksToo(t *testing.T) {
	l := newLedger()
	w := newWorld(t, func(o *mcpdoor.Options) { o.Tasks, o.Patience = l, time.Millisecond })
	c := &raw{t: t, url: w.url, who: "ada", headers: headersOf("tools/call", "wait.here")}
	r := c.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait.here",`+strings.Replace(capable(""), `"_meta":{`, `"_meta":{"progressToken":4,`, 1)+`}}`)
	var a taskAnswer
	if err := json.Unmarshal(r.Result, &a.Result); err != nil || a.Result.Type != "task" || a.Result.Status != "working" {
		t.Fatalf("answered %s", r.body)
	}
	c.headers = headersOf("tasks/cancel", a.Result.ID)
	c.send(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tasks/cancel","params":{"taskId":"`+a.Result.ID+`",`+capable("")+`}}`)
	select {
	case <-w.gone:
	case <-time.After(bridgetest.Patience):
		t.Error("the call goes on")
	}
	l.wg.Wait()
}

func TestClientsHearOfTheirTasks(t *testing.T) {
	l := newLedger()
	l.add("ada", mcpdoor.Task{ID: "t1"})
	l.add("bob", mcpdoor.Task{ID: "t2"})
	w := newWorld(t, func(o *mcpdoor.Options) { o.Tasks = l })
	c := &raw{t: t, url: w.url, who: "ada", headers: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}}
	listen := func(meta string) string {
		return `{"jsonrpc":"2.0","id":"s1","method":"subscriptions/listen","params":{"notifications":{"taskIds":["t1","t2","t3"]},` + meta + `}}`
	}
	if r := c.send(http.MethodPost, listen(modern)); r.status != http.StatusBadRequest || r.Error.Code != -32021 {
		t.Errorf("a client that does not know of tasks: %d %s", r.status, r.body)
	}
	go l.add("ada", mcpdoor.Task{ID: "t1", State: mcpdoor.TaskDone, Result: &tools.Result{Status: tools.Success, Text: "done"}})
	r := c.send(http.MethodPost, listen(capable(""))) // returns when there is nothing more to hear of
	for _, part := range []string{
		`"method":"notifications/subscriptions/acknowledged"`, `"notifications":{"taskIds":["t1"]}`, `"method":"notifications/tasks"`,
		`"status":"completed"`, `"text":"done"`, `"io.modelcontextprotocol/subscriptionId":"s1"`, `"result":{"_meta"`,
	} {
		if !strings.Contains(r.body, part) {
			t.Errorf("there is no %s in %s", part, r.body)
		}
	}
}

func TestOneStreamTellsOfTasksAndLists(t *testing.T) {
	l := newLedger()
	l.add("ada", mcpdoor.Task{ID: "t1"})
	w := newWorld(t, func(o *mcpdoor.Options) { o.Tasks = l })
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["t1"],"toolsListChanged":true},`+capable("")+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen", "Authorization": "Bearer ada",
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
	} {
		request.Header.Set(name, value)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	heard := ""
	for text := make([]byte, 4096); !strings.Contains(heard, "notifications/tools/list_changed"); {
		n, err := response.Body.Read(text)
		heard += string(text[:n])
		if err != nil {
			t.Fatalf("the stream ended with %v after %s", err, heard)
		}
		if strings.Contains(heard, "notifications/tasks") { // so it listens; the list is first looked at, and then compared
			w.source.add("", &tools.Tool{Declaration: tools.Declaration{Name: fmt.Sprintf("new.%d", len(heard)), Effect: commands.Read}, Run: nothing})
			l.change(func() { l.tasks["t1"].marks++ })
		}
	}
}
