package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var (
	alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}
	bob   = &protocol.Principal{Kind: protocol.KindOperator, ID: "bob", Space: protocol.DefaultSpace}
)

// A scripted model says what its answer function says.
type scripted struct {
	t      testing.TB
	answer func(n int, r chat.Request) (text string, calls []string, err error)

	mu    sync.Mutex
	asked []model.Question
}

func (m *scripted) Ask(_ context.Context, q model.Question, emit func(chat.Event) error) (*model.Reply, error) {
	m.mu.Lock()
	n := len(m.asked)
	m.asked = append(m.asked, q)
	m.mu.Unlock()
	list := append([]chat.Message(nil), q.Request.Messages...)
	if err := chat.Complete(list); err != nil {
		m.t.Errorf("asked with a broken conversation: %v", err)
	}
	text, calls, err := m.answer(n, q.Request)
	if err != nil {
		return nil, err
	}
	a := &chat.Answer{Finish: chat.Finish{Reason: chat.EndTurn, Usage: chat.Usage{Input: 10, Output: 5}}}
	if text != "" {
		a.Segments = append(a.Segments, chat.Segment{Type: chat.Text, Text: text})
		if emit != nil {
			if err := emit(chat.Event{Type: chat.TextDelta, Text: text}); err != nil {
				return nil, err
			}
		}
	}
	for i, name := range calls {
		a.Segments = append(a.Segments, chat.Segment{Type: chat.Call, ToolCall: &chat.ToolCall{ID: fmt.Sprint("c", i), Name: name, Args: json.RawMessage("{}")}})
	}
	return &model.Reply{Answer: a, Usage: a.Finish.Usage, Model: "m", Took: time.Millisecond}, nil
}

func (m *scripted) last() model.Question {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[len(m.asked)-1]
}

type given []*tools.Tool

func (g given) Tools(context.Context, tools.Environment) ([]*tools.Tool, error) { return g, nil }
func (g given) Revision() string                                                { return "1" }

// room is a bridge with nothing but conversations.
type room struct {
	*Service
	*scripted
	table  *recordstest.Memory[Conversation]
	router *commands.Router
	now    time.Time
	ids    int
	t      testing.TB
	called []string // tools, and for whom
}

func newRoom(t testing.TB, answer func(n int, r chat.Request) (string, []string, error), change ...func(*Options)) *room {
	t.Helper()
	r := &room{t: t, scripted: &scripted{t: t, answer: answer}, table: recordstest.New[Conversation](), now: time.Now()}
	run := func(_ context.Context, x *tools.Execution) (tools.Output, error) {
		r.called = append(r.called, x.Name+" "+x.Principal.ID+" "+string(x.ArgumentsJSON))
		if x.Name == "oven.heat" {
			return tools.Output{}, protocol.Errorf(protocol.InvalidState, "broken")
		}
		return tools.Output{Text: "21 degrees"}, nil
	}
	declare := func(name, risk string) *tools.Tool {
		return &tools.Tool{Declaration: tools.Declaration{Name: name, Description: "Does it.\nReally.", Schema: json.RawMessage(`{"type":"object"}`), Risk: risk, Effect: commands.Act}, Run: run}
	}
	catalogue := tools.New(given{declare("thermostat.read", ""), declare("oven.heat", "ask"), declare("oven.clean", "deny")})
	pass := func(context.Context, *tools.Tool, *tools.Execution) error { return nil }
	o := Options{
		Conversations: r.table, Tools: catalogue, Direct: &tools.Executor{Gate: pass},
		Talker: loop.New(loop.Options{Model: r.scripted, Tools: catalogue, Executor: &tools.Executor{}}),
		Models: func(protocol.SpaceID) []string { return []string{"m", "large"} },
		Now:    func() time.Time { return r.now },
	}
	for _, f := range change {
		f(&o)
	}
	r.Service = New(o)
	set, err := commands.NewSet(append(commands.Builtin(), r.Commands()...)...)
	if err != nil {
		t.Fatal(err)
	}
	r.router = commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	t.Cleanup(func() { _ = r.router.Close(context.Background()) })
	return r
}

func (r *room) say(who *protocol.Principal, params string) (ChatResult, *protocol.Error) {
	r.t.Helper()
	r.ids++
	answer := r.router.Handle(r.t.Context(), commands.Inbound{Principal: who, Door: "test", Body: fmt.Appendf(nil,
		`{"version":"0.6.3","id":"q%d","timestamp":0,"type":"request","command":"llm.chat","params":%s,"metadata":{"trace_id":"trace"}}`, r.ids, params)})
	var got ChatResult
	if answer.Err == nil {
		if err := json.Unmarshal(answer.Result, &got); err != nil {
			r.t.Fatal(err)
		}
	}
	return got, answer.Err
}

// must says something in the conversation "s".
func (r *room) must(message string) ChatResult {
	r.t.Helper()
	raw, _ := json.Marshal(message)
	got, err := r.say(alice, fmt.Sprintf(`{"session_id":"s","message":%s,"tools":["*"]}`, raw))
	if err != nil {
		r.t.Fatalf("%s: %v", message, err)
	}
	return got
}

func echo(n int, r chat.Request) (string, []string, error) {
	a := chat.Answer{Segments: r.Messages[len(r.Messages)-1].Segments}
	return fmt.Sprintf("%d: %s", n, a.Text()), nil, nil
}

func TestAConversationGoesOn(t *testing.T) {
	r := newRoom(t, echo)
	first, err := r.say(alice, `{"message":"hello","system":"Be brief.","model":"large"}`)
	if err != nil || first.Session == "" || first.By != "model" || first.Result != "0: hello" || first.Turns != 1 || first.TokensUsed != 15 {
		t.Fatalf("got %+v, %v", first, err)
	}
	again, err := r.say(alice, fmt.Sprintf(`{"session_id":%q,"message":"and now?"}`, first.Session))
	if err != nil || again.Turns != 2 {
		t.Fatalf("got %+v, %v", again, err)
	}
	q := r.last()
	raw, _ := json.Marshal(q.Request.Messages)
	if want := `[{"role":"system","segments":[{"type":"text","text":"Be brief."}]},{"role":"user","segments":[{"type":"text","text":"hello"}]},{"role":"assistant","segments":[{"type":"text","text":"0: hello"}]},{"role":"user","segments":[{"type":"text","text":"and now?"}]}]`; string(raw) != want || q.Model != "large" {
		t.Errorf("asked %s for %s", q.Model, raw)
	}
	if other, err := r.say(bob, fmt.Sprintf(`{"session_id":%q,"message":"hello"}`, first.Session)); err != nil || other.Turns != 1 || len(r.last().Request.Messages) != 1 {
		t.Errorf("somebody else's: %+v, %v", other, err)
	}
}

func TestCallsOfToolsAreRemembered(t *testing.T) {
	r := newRoom(t, func(n int, _ chat.Request) (string, []string, error) {
		if n == 0 {
			return "I look.", []string{"thermostat.read", "thermostat.read"}, nil
		}
		return "It is 21.", nil, nil
	})
	got := r.must("how warm?")
	if got.Result != "It is 21." || got.Tools.Success != 2 || got.TokensUsed != 30 {
		t.Errorf("got %+v", got)
	}
	r.must("sure?")
	if n := len(r.last().Request.Messages); n != 6 { // user, answer with calls, two results, answer, user
		t.Errorf("shown %d messages", n)
	}
}

func TestSlashCommandsAskNoModel(t *testing.T) {
	r := newRoom(t, echo)
	for _, c := range []struct{ message, want string }{
		{"/help", "/skill.capability"},
		{" /tools ", "  oven.clean  Does it. (no model may call it)\n* oven.heat  Does it.\n* thermostat.read  Does it."},
		{"/oven.clean", "21 degrees"},
		{"/tools thermostat.*", "* thermostat.read"},
		{`/tool thermostat.read {"room":"hall"}`, "21 degrees"},
		{`/tool thermostat.read{"room":"hall"}`, "21 degrees"},
		{`/thermostat.read {"room": "hall",}`, "21 degrees"},
		{"/thermostat.read", "21 degrees"},
		{"/oven.heat", "Error: broken"},
		{"/thermostat.read {", "json_parse_error"},
		{"/tool", "Which tool?"},
		{"/model", "The model is the default one. There are: m, large."},
		{"/model small", `There is no model "small". There are: m, large.`},
		{"/model large", "From now on large answers."},
		{"/model", "The model is large."},
	} {
		got := r.must(c.message)
		if got.By != "command" || !strings.Contains(strings.ToLower(got.Result), strings.ToLower(c.want)) || got.TokensUsed != 0 {
			t.Errorf("%s: %+v", c.message, got)
		}
	}
	if len(r.asked) != 0 {
		t.Errorf("the model was asked %d times", len(r.asked))
	}
	if len(r.called) != 6 || r.called[0] != "oven.clean alice {}" || r.called[1] != `thermostat.read alice {"room":"hall"}` {
		t.Errorf("called %q", r.called)
	}
	if _, err := r.say(alice, `{"session_id":"s","message":"/tool thermostat.reed"}`); err == nil || err.Code != protocol.NotFound || err.Details["did_you_mean"] != "thermostat.read" {
		t.Errorf("a tool that there is not: %v", err)
	}
	r.must("hello")
	if r.last().Model != "large" {
		t.Errorf("%q was asked", r.last().Model)
	}
}

func TestWhatIsNoSlashCommandIsForTheModel(t *testing.T) {
	r := newRoom(t, echo)
	for i, message := range []string{"/x", "/etc/passwd has what?", "/no.such {}", "/", "// really", "what does /help do?"} {
		if got := r.must(message); got.By != "model" || got.Result != fmt.Sprintf("%d: %s", i, message) {
			t.Errorf("%s: %+v", message, got)
		}
	}
	for _, message := range []string{"/help", "/thermostat.read"} {
		if got, err := r.say(alice, fmt.Sprintf(`{"message":%q,"literal":true}`, message)); err != nil || got.By != "model" {
			t.Errorf("passed on: %+v, %v", got, err)
		}
	}
	if len(r.called) != 0 {
		t.Errorf("called %v", r.called)
	}
}

func TestWhatAgentsAndSkillsPassOnIsForTheModel(t *testing.T) {
	r := newRoom(t, echo)
	const order = `"message":"/thermostat.read {}"`
	for name, test := range map[string]struct {
		kind    protocol.Kind
		literal string
		by      string
	}{
		"an operator":                      {protocol.KindOperator, ``, "command"},
		"an operator who passes on":        {protocol.KindOperator, `,"literal":true`, "model"},
		"an operator who says so":          {protocol.KindOperator, `,"literal":false`, "command"},
		"an agent":                         {protocol.KindAgent, ``, "model"},
		"an agent that speaks for itself":  {protocol.KindAgent, `,"literal":false`, "command"},
		"a skill":                          {protocol.KindSkill, ``, "model"},
		"a skill that speaks for itself":   {protocol.KindSkill, `,"literal":false`, "command"},
		"somebody of whom nothing is said": {"", ``, "model"},
	} {
		who := &protocol.Principal{Kind: test.kind, ID: "who", Space: protocol.DefaultSpace}
		r.called = nil
		got, err := r.say(who, `{`+order+test.literal+`}`)
		if err != nil || got.By != test.by || (len(r.called) > 0) != (test.by == "command") {
			t.Errorf("%s: %+v, %v, called %v", name, got, err, r.called)
		}
	}
}

func TestResetAndQuitForget(t *testing.T) {
	r := newRoom(t, echo)
	r.must("hello")
	r.must("/reset")
	r.must("again")
	if n := len(r.last().Request.Messages); n != 1 {
		t.Errorf("after /reset %d messages", n)
	}
	if got := r.must("/quit"); !got.Ended || r.table.Len() != 0 {
		t.Errorf("got %+v, %d kept", got, r.table.Len())
	}
}

func TestALockedConversationIsUnlockedByReset(t *testing.T) {
	failing := true
	r := newRoom(t, func(n int, q chat.Request) (string, []string, error) {
		if failing && q.Options.ToolChoice.Mode != "none" {
			return "", []string{"oven.heat", "oven.heat", "oven.heat", "oven.heat", "thermostat.read", "oven.heat", "oven.heat", "oven.heat", "oven.heat", "thermostat.read"}, nil
		}
		return "Fine.", nil, nil
	})
	got := r.must("heat")
	if got.Tools.Stop != "halted" || got.FinishReason != "error" || got.FinishDetail == "" {
		t.Errorf("got %+v", got.Tools)
	}
	failing = false
	if _, err := r.say(alice, `{"session_id":"s","message":"and now?"}`); err == nil || err.Code != protocol.InvalidState || err.Details["reason"] != "locked" {
		t.Errorf("locked: %v", err)
	}
	r.must("/reset")
	if got := r.must("and now?"); got.Result != "Fine." {
		t.Errorf("after /reset: %+v", got)
	}
}

func TestAFailedAnswerLeavesAWholeConversation(t *testing.T) {
	r := newRoom(t, func(n int, q chat.Request) (string, []string, error) {
		switch n {
		case 0:
			return "", []string{"thermostat.read"}, nil
		case 1, 3:
			return "", nil, protocol.Errorf(protocol.LLMUnavailable, "down")
		}
		return "Back.", nil, nil
	})
	if _, err := r.say(alice, `{"session_id":"s","message":"how warm?","tools":["*"]}`); err == nil || err.Code != protocol.LLMUnavailable {
		t.Errorf("got %v", err)
	}
	r.must("still there?")
	if n := len(r.last().Request.Messages); n != 4 { // what was done is known, and the model checks that it is whole
		t.Errorf("shown %d messages", n)
	}
	if _, err := r.say(alice, `{"session_id":"s","message":"lost"}`); err == nil {
		t.Error("no failure")
	}
	r.must("last")
	raw, _ := json.Marshal(r.last().Request.Messages)
	if strings.Contains(string(raw), "lost") {
		t.Errorf("what was not answered stayed: %s", raw)
	}
}

func TestOneMessageAtATime(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	r := newRoom(t, func(int, chat.Request) (string, []string, error) {
		entered <- true
		<-leave
		return "ok", nil, nil
	})
	done := make(chan *protocol.Error)
	go func() {
		answer := r.router.Handle(t.Context(), commands.Inbound{Principal: alice, Door: "test", Body: []byte(
			`{"version":"0.6.3","id":"first","timestamp":0,"type":"request","command":"llm.chat","params":{"session_id":"s","message":"a"},"metadata":{}}`)})
		done <- answer.Err
	}()
	<-entered
	if _, err := r.say(alice, `{"session_id":"s","message":"b"}`); err == nil || err.Code != protocol.Busy {
		t.Errorf("got %v", err)
	}
	leave <- true
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestQuietConversationsAreForgotten(t *testing.T) {
	r := newRoom(t, echo, func(o *Options) { o.MaxConversations = 3 })
	for i := range 5 {
		r.now = r.now.Add(time.Minute)
		if _, err := r.say(alice, fmt.Sprintf(`{"session_id":"s%d","message":"a"}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, ok := r.table.Get(keyOf(alice, "s1")); ok || r.table.Len() != 3 {
		t.Errorf("%d are kept", r.table.Len())
	}
	r.now = r.now.Add(25 * time.Hour)
	if got, err := r.say(alice, `{"session_id":"s4","message":"b"}`); err != nil || got.Turns != 1 {
		t.Errorf("after a day of quiet: %+v, %v", got, err)
	}
	r.sweep(t.Context())
	if r.table.Len() != 1 {
		t.Errorf("%d are kept", r.table.Len())
	}
}

// TestTheWindowIsBoundedAndNeverBeginsWithAnOrphan lets people and models say
// and do whatever, and looks at what a model would be shown.
func TestTheWindowIsBoundedAndNeverBeginsWithAnOrphan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turns, bytes := rapid.IntRange(1, 6).Draw(t, "turns"), rapid.IntRange(300, 3000).Draw(t, "bytes")
		s := &Conversation{}
		for range rapid.IntRange(1, 12).Draw(t, "said") {
			text := func(name string) string {
				return strings.Repeat("wörter ", rapid.IntRange(0, 200).Draw(t, name))
			}
			turn := Turn{Messages: []chat.Message{chat.TextMessage(chat.User, "x"+text("user"))}}
			for range rapid.IntRange(0, 3).Draw(t, "rounds") {
				id := protocol.NewID()
				turn.Messages = append(turn.Messages,
					chat.Message{Role: chat.Assistant, Segments: []chat.Segment{{Type: chat.Call, ToolCall: &chat.ToolCall{ID: id, Name: "f"}}}},
					chat.Message{Role: chat.ToolRole, ToolCallID: id, Segments: []chat.Segment{{Type: chat.Text, Text: text("result")}}})
			}
			turn.Messages = append(turn.Messages, chat.TextMessage(chat.Assistant, text("answer")))
			s.Turns = append(s.Turns, turn)
			s.fit(turns, bytes)
			if len(s.Turns) > turns || len(s.Turns) == 0 {
				t.Fatalf("%d turns", len(s.Turns))
			}
			total := 0
			for i := range s.Turns {
				total += s.Turns[i].size()
			}
			if total > bytes {
				t.Fatalf("%d bytes, of %d", total, bytes)
			}
			list := s.messages(chat.TextMessage(chat.User, "now"))
			if list[0].Role != chat.User {
				t.Fatalf("begins with %s", list[0].Role)
			}
			if err := chat.Complete(list); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzOrders reads whatever people type. What is an order can be typed again
// from its parts; what is not one goes to the model as it is.
func FuzzOrders(f *testing.F) {
	for _, seed := range []string{"/help", "/tool a.b {\"x\":1}", "/a.b{}", "/", " / ", "/\n", "hello /help", "/ü {", "/tool"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		o, ok := parseOrder(message)
		if !ok {
			return
		}
		if o.word == "" || strings.ContainsAny(o.word, " \t\n{") || !strings.HasPrefix(strings.TrimSpace(message), "/"+o.word) {
			t.Errorf("%q is %+v", message, o)
		}
		if again, ok := parseOrder("/" + o.word + " " + o.rest); !ok || again != o {
			t.Errorf("%+v is read again as %+v", o, again)
		}
	})
}
