package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// bound is a sealer that seals nothing, but notices what is out of place.
type bound struct{}

func (bound) Seal(plain []byte, purpose string) ([]byte, error) {
	return append([]byte(purpose+"\n"), plain...), nil
}

func (bound) Open(sealed []byte, purpose string) ([]byte, error) {
	plain, ok := strings.CutPrefix(string(sealed), purpose+"\n")
	if !ok {
		return nil, errors.New("it is not where it belongs")
	}
	return []byte(plain), nil
}

var alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}
var bob = &protocol.Principal{Kind: protocol.KindOperator, ID: "bob", Space: protocol.DefaultSpace}

// A scripted model plays one: it is asked and says something.
type scripted func(ctx context.Context, q model.Question) (*chat.Answer, error)

func (m scripted) Ask(ctx context.Context, q model.Question, emit func(chat.Event) error) (*model.Reply, error) {
	a, err := m(ctx, q)
	if err != nil {
		return nil, err
	}
	if emit != nil {
		if err := emit(chat.Event{Type: chat.TextDelta, Text: a.Text()}); err != nil {
			return nil, err
		}
	}
	return &model.Reply{Answer: a, Model: "scripted", Usage: a.Finish.Usage}, nil
}

// script is a model that says one thing after the other.
func script(answers ...*chat.Answer) scripted {
	var mu sync.Mutex
	n := 0
	return func(context.Context, model.Question) (*chat.Answer, error) {
		mu.Lock()
		defer mu.Unlock()
		if n == len(answers) {
			return nil, protocol.Errorf(protocol.LLMRefused, "the script has ended")
		}
		n++
		for i, c := range answers[n-1].Calls() {
			c.ID = fmt.Sprintf("call_%d_%d", n, i+1)
		}
		return answers[n-1], nil
	}
}

// says is an answer without calls.
func says(text string) *chat.Answer {
	return &chat.Answer{Segments: []chat.Segment{{Type: chat.Text, Text: text}}, Finish: chat.Finish{Reason: chat.EndTurn}}
}

// calls is an answer with calls, each a name and arguments.
func calls(list ...string) *chat.Answer {
	a := &chat.Answer{Finish: chat.Finish{Reason: chat.ToolUse}}
	for i := 0; i < len(list); i += 2 {
		c := &chat.ToolCall{ID: fmt.Sprintf("call_%d", i/2+1), Name: list[i]}
		if json.Valid([]byte(list[i+1])) {
			c.Args = json.RawMessage(list[i+1])
		} else {
			c.Raw = list[i+1]
		}
		a.Segments = append(a.Segments, chat.Segment{Type: chat.Call, ToolCall: c})
	}
	return a
}

// patch is a call that advances workflow.md.
func patch(update string) (name, args string) {
	return "fs.apply_patch", `{"path":"@state/workflow.md","operation":"updateFrontmatter","update":` + update + `}`
}

func step(done, next string) *chat.Answer {
	return calls(patch(fmt.Sprintf(`{"stepsCompleted":{"append":[%q]},"currentNodeId":{"set":%q}}`, done, next)))
}

// A world is a service and what is around it. Its tables and folders outlive
// the service.
type world struct {
	*Service
	t        testing.TB
	opts     Options
	projects string
	mu       sync.Mutex
	events   []string
	audited  []Audited
	device   device
}

// device is a thermostat.
type device struct {
	mu      sync.Mutex
	sets    []string
	claims  map[string]bool // the keys of calls that were begun, as the bridge remembers them
	reads   int
	holds   bool // set_target does not answer
	begun   chan struct{}
	offline bool

	unstored int // how often a call is claimed in vain
}

func newWorld(t testing.TB, m scripted, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, projects: t.TempDir(), device: device{claims: make(map[string]bool)}}
	w.opts = Options{
		Asker: m, Executor: &tools.Executor{}, Runs: recordstest.New[Record](), Packages: recordstest.New[PackageRecord](),
		Dir: t.TempDir(), Sealer: bound{}, Policy: DefaultPolicy(),
		Project: func(_ context.Context, _ grant.Grant, name string) (mount.FS, error) {
			dir := filepath.Join(w.projects, name)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
			return mount.OpenFolder(dir)
		},
		Publish: func(_ protocol.Recipients, _ protocol.TaskID, e *protocol.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e.Name+" "+string(e.Data))
		},
		Audit: func(a Audited) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.audited = append(w.audited, a)
		},
	}
	w.opts.Catalogue = w.thermostat()
	if everywhere {
		inLogs(&w.opts)
	}
	for _, c := range change {
		c(&w.opts)
	}
	w.Service = New(w.opts)
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	if err := w.Service.Close(ctx); err != nil {
		w.t.Error(err)
	}
}

// restart stops the service and starts another with another model on what it
// has left.
func (w *world) restart(m scripted) {
	w.t.Helper()
	w.stop()
	w.opts.Asker = m
	if w.opts.Logs != nil {
		w.opts.Dir, w.opts.Node = w.t.TempDir(), w.opts.Node+"1"
	}
	w.Service = New(w.opts)
	w.Recover(context.Background())
}

// thermostat are the tools of the bridge.
func (w *world) thermostat() *tools.Catalogue {
	d := &w.device
	read := &tools.Tool{
		Declaration: tools.Declaration{Name: "thermostat-go.read", Effect: commands.Act, Idempotent: true, Source: "skill"},
		Run: func(context.Context, *tools.Execution) (tools.Output, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.reads++
			return tools.Output{Content: json.RawMessage(`{"celsius":17.5,"target":20}`)}, nil
		},
	}
	set := &tools.Tool{
		Declaration: tools.Declaration{Name: "thermostat-go.set_target", Effect: commands.Act, Source: "skill",
			Parameters: []tools.Parameter{{Name: "celsius", Kind: tools.Number, Required: true}}},
		Run: func(ctx context.Context, x *tools.Execution) (tools.Output, error) {
			d.mu.Lock()
			if d.unstored > 0 {
				d.unstored--
				d.mu.Unlock()
				return tools.Output{}, protocol.Errorf(protocol.StoreUnavailable, "the store does not answer")
			}
			if key := tools.KeyOf(ctx); d.claims[key] {
				d.mu.Unlock()
				return tools.Output{}, protocol.Errorf(protocol.OutcomeUnknown, "it was begun, and how it ended is not known")
			} else if !d.offline {
				d.claims[key] = true
			}
			d.sets = append(d.sets, string(x.ArgumentsJSON))
			holds, begun := d.holds, d.begun
			if d.offline {
				d.sets = d.sets[:len(d.sets)-1]
				d.mu.Unlock()
				return tools.Output{}, protocol.Errorf(protocol.AgentOffline, "it is offline")
			}
			d.mu.Unlock()
			if holds {
				close(begun)
				<-ctx.Done()
				return tools.Output{}, ctx.Err()
			}
			return tools.Output{Content: json.RawMessage(`{"celsius":17.5,"target":21}`)}, nil
		},
	}
	command := &tools.Tool{
		Declaration: tools.Declaration{Name: "agent.list", Source: "command"},
		Run: func(context.Context, *tools.Execution) (tools.Output, error) {
			return tools.Output{Text: "none"}, nil
		},
	}
	mcp := &tools.Tool{
		Declaration: tools.Declaration{Name: "mcp.files.read", Source: "mcp:files"},
		Run: func(context.Context, *tools.Execution) (tools.Output, error) {
			return tools.Output{Text: "a file"}, nil
		},
	}
	fixed, err := tools.Fixed(read, set, command, mcp)
	if err != nil {
		w.t.Fatal(err)
	}
	return tools.New(fixed)
}

func callOf(who *protocol.Principal) *commands.Call {
	return &commands.Call{Principal: who, Deadline: time.Now().Add(time.Minute), TraceID: "trace-1"}
}

// imported is a world that has the sample package.
func imported(t testing.TB, m scripted, change ...func(*Options)) *world {
	t.Helper()
	w := newWorld(t, m, change...)
	zip := sample(t)
	w.opts.Fetch = func(context.Context, *protocol.Principal, string, string, int64) ([]byte, error) { return zip, nil }
	w.Service.opts.Fetch = w.opts.Fetch
	if _, err := w.Import(t.Context(), callOf(alice), ImportParams{Content: base64Of(zip)}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) start(p StartParams) string {
	w.t.Helper()
	r, err := w.Start(w.t.Context(), callOf(alice), p)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.ID
}

// rest waits until a run is at rest.
func (w *world) rest(id string) StatusResult {
	w.t.Helper()
	for deadline := time.Now().Add(eventually.Patience); time.Now().Before(deadline); {
		if l := w.find(id); l != nil {
			<-l.done
		}
		got, err := w.Status(w.t.Context(), callOf(alice), StatusParams{Run: id})
		if err != nil {
			w.t.Fatal(err)
		}
		if got.Phase != Running {
			return got
		}
	}
	w.t.Fatal("the run does not come to rest")
	return StatusResult{}
}

func (w *world) goOn(id string, input *string) {
	w.t.Helper()
	if _, err := w.Continue(w.t.Context(), callOf(alice), ContinueParams{Run: id, Input: input}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) turns(id string) []Turn {
	w.t.Helper()
	got, err := w.Turns(w.t.Context(), callOf(alice), TurnsParams{Run: id, Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	return got.Turns
}

// last is the last request that a model got, as text.
func lastRequest(q model.Question) string {
	var b strings.Builder
	for _, m := range q.Request.Messages {
		fmt.Fprintf(&b, "[%s] ", m.Role)
		for _, s := range m.Segments {
			b.WriteString(s.Text)
			if s.ToolCall != nil {
				fmt.Fprintf(&b, "%s%s", s.ToolCall.Name, s.ToolCall.Args)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func ptr(s string) *string { return &s }
