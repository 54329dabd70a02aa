package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/loop"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}

// A house is a router with the commands, and the models behind them.
type house struct {
	*Service
	models *model.Service
	router *commands.Router
}

func newHouse(t testing.TB, c model.Config, change ...func(*Options)) *house {
	t.Helper()
	asks := model.New(model.Options{Transport: &http.Transport{DisableKeepAlives: true}})
	o := Options{Models: asks}
	for _, f := range change {
		f(&o)
	}
	s := New(o)
	if len(c.Models) > 0 {
		if _, err := asks.Configure(c); err != nil {
			t.Fatal(err)
		}
	}
	set, err := commands.NewSet(append(commands.Builtin(), s.Commands()...)...)
	if err != nil {
		t.Fatal(err)
	}
	r := commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return &house{s, asks, r}
}

var ids int
var idsMu sync.Mutex

// do runs a command and returns its answer; events go to emit.
func (h *house) do(t testing.TB, who *protocol.Principal, command, params string, emit func(*protocol.Event)) *protocol.Response {
	t.Helper()
	idsMu.Lock()
	ids++
	id := fmt.Sprint("q-", ids)
	idsMu.Unlock()
	body := fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":%q,"params":%s}`, id, command, params)
	return h.router.Handle(t.Context(), commands.Inbound{Principal: who, Body: []byte(body), Door: "test", Emit: emit})
}

func (h *house) ask(t testing.TB, params string) (QueryResult, *protocol.Error) {
	t.Helper()
	return result(t, h.do(t, alice, "llm.advanced-query", params, nil))
}

func result(t testing.TB, r *protocol.Response) (QueryResult, *protocol.Error) {
	t.Helper()
	var q QueryResult
	if r.Err == nil {
		if err := json.Unmarshal(r.Result, &q); err != nil {
			t.Fatal(err)
		}
	}
	return q, r.Err
}

func said(text string) wiretest.Reply {
	raw, _ := json.Marshal(text)
	return wiretest.Stream(`{"model":"m-1","choices":[{"delta":{"content":`+string(raw)+`}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`, "[DONE]")
}

// at is a configuration with one model, "m", at these servers, one priority
// after the other.
func at(servers ...*wiretest.Server) model.Config {
	c := model.Config{Models: []model.ModelConfig{{Name: "m", Aliases: []string{"small"}}}, Probe: -1}
	for i, s := range servers {
		name := fmt.Sprint("p", i)
		c.Providers = append(c.Providers, model.ProviderConfig{Name: name, Wire: "openai", BaseURL: s.URL})
		c.Models[0].Routes = append(c.Models[0].Routes, model.Route{Provider: name, Model: "real-m", Priority: i, Price: model.Price{Input: 1e5, Output: 2e5}})
	}
	return c
}

func TestWithoutAProviderNothingPretendsToBeAModel(t *testing.T) {
	h := newHouse(t, model.Config{})
	if _, err := h.ask(t, `{"query":"hi"}`); err == nil || err.Code != protocol.LLMUnavailable {
		t.Errorf("got %v", err)
	}
	if r := h.do(t, alice, "llm.status", `{}`, nil); !strings.Contains(string(r.Result), `"status":"unconfigured"`) {
		t.Errorf("got %s", r.Result)
	}
	if r := h.do(t, alice, "llm.models", `{}`, nil); string(r.Result) != `{"models":[]}` {
		t.Errorf("got %s", r.Result)
	}
}

func TestAQueryIsAnswered(t *testing.T) {
	s := wiretest.New(t, said("No, it is fine."))
	h := newHouse(t, at(s))
	r := h.do(t, alice, "llm.query", `{"skill_id":"heating","query":"Too warm?","parameters":{"system":"Be brief.","celsius":26,"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]}}`, nil)
	q, err := result(t, r)
	if err != nil {
		t.Fatal(err)
	}
	if q.Result != "No, it is fine." || q.TokensUsed != 15 || q.Model != "m" || q.FinishReason != "end_turn" || q.Cost != 2 || q.From != "provider" || len(q.Segments) != 1 {
		t.Errorf("got %+v", q)
	}
	var asked struct {
		Model    string
		Messages json.RawMessage
	}
	_ = json.Unmarshal(s.Requests()[0].Body, &asked)
	if want := `[{"role":"system","content":"Be brief."},{"role":"user","content":"hello"},{"role":"assistant","content":"hi"},{"role":"user","content":"Too warm?\n\nParameters:\n{\"celsius\":26}"}]`; asked.Model != "real-m" || string(asked.Messages) != want {
		t.Errorf("asked %s for\n%s", asked.Model, asked.Messages)
	}
}

func TestOnlyWhoMayActForASkillAsksOnItsBehalf(t *testing.T) {
	s := wiretest.New(t, said("ok"))
	h := newHouse(t, at(s), func(o *Options) {
		o.MayActFor = func(_ context.Context, call *commands.Call, skill string) error {
			if skill != "mine" {
				return protocol.Errorf(protocol.PermissionDenied, "not yours")
			}
			return nil
		}
	})
	if _, err := h.ask(t, `{"query":"a","skill_id":"mine"}`); err != nil {
		t.Error(err)
	}
	if _, err := h.ask(t, `{"query":"a","skill_id":"another"}`); err == nil || err.Code != protocol.PermissionDenied || len(s.Requests()) != 1 {
		t.Errorf("got %v", err)
	}
}

func TestAStreamTellsTheAnswerInPieces(t *testing.T) {
	s := wiretest.New(t, wiretest.Stream(`{"choices":[{"delta":{"content":"Hel"}}]}`, `{"choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]}`, "[DONE]"))
	h := newHouse(t, at(s))
	var pieces []string
	r := h.do(t, alice, "llm.query", `{"query":"hi","stream":true}`, func(e *protocol.Event) {
		var d chat.Event
		_ = json.Unmarshal(e.Data, &d)
		pieces = append(pieces, fmt.Sprintf("%s %s %s", e.Name, d.Type, d.Text))
	})
	if q, err := result(t, r); err != nil || q.Result != "Hello" {
		t.Errorf("got %+v, %v", q, err)
	}
	if got := strings.Join(pieces, "|"); got != "llm.delta text_delta Hel|llm.delta text_delta lo|llm.delta finish " {
		t.Errorf("heard %s", got)
	}
}

// llm.query leaves it to the bridge how it is answered, so the same one is
// answered once: as long as its answer is kept, and while it is on its way.
func TestTheSamePlainQueryIsAnsweredOnce(t *testing.T) {
	s := wiretest.New(t, said("one"), said("two"), said("three"))
	c := at(s)
	c.Cache.TTL = time.Hour
	h := newHouse(t, c)
	for i, want := range []struct{ query, result, from string }{
		{`{"query":"a"}`, "one", "provider"},
		{`{"query":"a"}`, "one", "cache"},
		{`{"query":"a","parameters":{"room":"hall"}}`, "two", "provider"},
		{`{"query":"b"}`, "three", "provider"},
	} {
		q, _ := result(t, h.do(t, alice, "llm.query", want.query, nil))
		if q.Result != want.result || q.From != want.from {
			t.Errorf("%d: %s gets %+v, want %+v", i, want.query, q, want)
		}
	}
}

// However late one of them is: what is no longer on its way is kept.
func TestQueriesThatRunAtTheSameTimeAreAskedOnce(t *testing.T) {
	for command, query := range map[string]string{
		"llm.query":          `{"query":"a"}`,
		"llm.advanced-query": `{"query":"a","options":{"temperature":0}}`,
	} {
		slow := said("once")
		slow.Hang = 100 * time.Millisecond
		s := wiretest.New(t, slow)
		c := at(s)
		c.Cache.TTL = time.Hour
		h := newHouse(t, c)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if q, err := result(t, h.do(t, alice, command, query, nil)); err != nil || q.Result != "once" {
					t.Errorf("%s: got %+v, %v", command, q, err)
				}
			})
		}
		wg.Wait()
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%s: the provider was asked %d times", command, n)
		}
	}
}

func TestBadQueriesNameWhatIsWrong(t *testing.T) {
	h := newHouse(t, at(wiretest.New(t, said("ok"))))
	for params, want := range map[string]string{
		`{}`:           "query",
		`{"query":""}`: "query",
		`{"query":"a","options":{"temperature":3}}`:                                                         "options.temperature",
		`{"query":"a","options":{"reasoning_effort":"much"}}`:                                               "options.reasoning_effort",
		`{"query":"a","parameters":{"messages":[{"role":"tool","content":"x"}]}}`:                           "parameters.messages[0]",
		`{"query":"a","parameters":{"messages":[{"role":"user","content":[{"type":"image","data":"x"}]}]}}`: "parameters.messages[0].segments[0].mimeType",
	} {
		if _, err := h.ask(t, params); err == nil || err.Code != protocol.InvalidParameter || err.Details["param_name"] != want {
			t.Errorf("%s: got %v %v", params, err, err.Details)
		}
	}
	for parameters, want := range map[string]string{
		`"x"`:                       "must be an object",
		`{"messages":"x"}`:          "messages cannot be read: not a string",
		`{"messages":[{"role":5}]}`: "messages cannot be read: no number belongs at role",
	} {
		if _, err := h.ask(t, `{"query":"a","parameters":`+parameters+`}`); err == nil || err.Details["reason"] != want {
			t.Errorf("%s: got %v", parameters, err)
		}
	}
}

func TestQueriesOfABatchRunAtTheSameTime(t *testing.T) {
	const queries = 3
	s := wiretest.New(t, said("ok"))
	var arrived sync.WaitGroup
	arrived.Add(queries)
	s.Before = func() {
		arrived.Done()
		arrived.Wait() // for the others
	}
	h := newHouse(t, at(s))
	ask := func(what string) string { return `{"command":"llm.query","params":{"query":"` + what + `"}}` }
	r := h.do(t, alice, "batch.execute", `{"mode":"parallel","commands":[`+ask("a")+`,`+ask("b")+`,`+ask("c")+`]}`, nil)
	if r.Err != nil || !strings.Contains(string(r.Result), `"success_count":3`) {
		t.Errorf("got %s, %v", r.Result, r.Err)
	}
}

// rounds is a loop that asks once, and notes what it was given.
type rounds struct {
	loop.Resumer
	service *model.Service
	got     loop.Conversation
}

func (r *rounds) Converse(ctx context.Context, c loop.Conversation, emit func(chat.Event) error) (*loop.Turn, error) {
	r.got = c
	c.Tell("llm.tool", map[string]string{"name": "thermostat.read"})
	o, err := r.service.Ask(ctx, c.Question, emit)
	if err != nil {
		return nil, err
	}
	all := *o
	all.Usage.Output += 100
	return &loop.Turn{Reply: &all}, nil
}

func TestToolsAreTheLoopsToRun(t *testing.T) {
	h := newHouse(t, at(wiretest.New(t, said("21 degrees"))))
	query := `{"query":"How warm?","tools":["thermostat.*"],"max_tool_rounds":3,"stream":true}`
	_, err := h.ask(t, query)
	if err == nil || err.Code != protocol.LLMUnavailable || err.Details["param_name"] != "tools" {
		t.Errorf("without a loop: %v", err)
	}
	loop := &rounds{service: h.models}
	h.opts.Loop = loop
	var events []string
	r := h.do(t, alice, "llm.query", query, func(e *protocol.Event) { events = append(events, e.Name) })
	got, err := result(t, r)
	if err != nil || got.Result != "21 degrees" || got.TokensUsed != 115 || loop.got.MaxRounds != 3 || loop.got.Tools[0] != "thermostat.*" {
		t.Errorf("got %+v, %v", got, err)
	}
	if strings.Join(events, " ") != "llm.tool llm.delta llm.delta" {
		t.Errorf("events %q", events)
	}
}
