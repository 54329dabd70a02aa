package run

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/protocol"
)

var traceRun = commands.Spec{
	Name:    "llm.run.trace",
	Summary: "Show when a run asked its model and ran tools, how long each took and what it cost, without what was said.",
	Effect:  commands.Read,
	Action:  "llm:read",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"run_id":"01989d3c-7a4e-7c11-9b52-2f6d1e0a4b7c"}`,
}

// TraceParams are the params of llm.run.trace.
type TraceParams struct {
	Run   string `json:"run_id" len:"1-64" doc:"the run"`
	After int    `json:"after,omitempty" range:"0-1000000" doc:"only turns after this one; next_after of the page before"`
	Limit int    `json:"limit,omitempty" range:"1-1000" default:"200" doc:"greatest number of turns"`
}

// Target implements [commands.Targeter].
func (p TraceParams) Target() commands.Resource { return commands.Resource{Type: "llm", ID: "run"} }

// TraceResult is one page of the spans of a run.
type TraceResult struct {
	Spans     []Span `json:"spans" doc:"turns in their order, each before the calls of its answer"`
	Turns     int    `json:"turns" doc:"number of turns on all pages"`
	NextAfter int    `json:"next_after,omitempty" doc:"cursor of the next page; absent on the last"`
}

// A Span is one turn or one call of a run.
type Span struct {
	ID       string     `json:"id" doc:"C03 for the third turn, C03.1 for the first call of its answer; equal to message_id in the events of the run"`
	Parent   string     `json:"parent,omitempty" doc:"the turn of a call"`
	Kind     string     `json:"kind" enum:"model,tool" doc:"model for a turn, tool for a call"`
	Name     string     `json:"name,omitempty" doc:"name of the model or of the tool; absent for a model that has not answered"`
	Provider string     `json:"provider,omitempty" doc:"provider that runs the model"`
	Node     string     `json:"node_id,omitempty" doc:"step that the run was in"`
	State    string     `json:"state" enum:"running,ok,failed,unknown" doc:"running; ok; failed; unknown if the bridge stopped before the end"`
	Code     fault.Code `json:"code,omitempty" doc:"reason why it failed"`
	CallID   string     `json:"call_id,omitempty" doc:"id of the call, as in approvals and in the audit"`
	About    string     `json:"about,omitempty" doc:"the beginning of the arguments"`
	At       int64      `json:"at" doc:"time at which it began, Unix milliseconds; of a call without a known beginning the time of the model's answer"`
	TookMS   float64    `json:"took_ms" doc:"milliseconds it took; 0 while it runs"`
	Input    int        `json:"input_tokens,omitempty" doc:"tokens of the question"`
	Output   int        `json:"output_tokens,omitempty" doc:"tokens of the answer"`
	Cost     float64    `json:"cost,omitempty" doc:"in the currency of the configured prices"`
	Replayed bool       `json:"replayed,omitempty" doc:"it was done before a crash and not repeated"`
}

// The states and kinds of a [Span].
const (
	spanRunning, spanOK, spanFailed, spanUnknown = "running", "ok", "failed", "unknown"

	modelSpan, toolSpan = "model", "tool"
)

// Trace returns the spans of a run, including the turn under way.
func (s *Service) Trace(ctx context.Context, call *commands.Call, p TraceParams) (TraceResult, error) {
	r, l, err := s.lookup(call.Principal, p.Run)
	if err != nil {
		return TraceResult{}, err
	}
	if l == nil && s.isElsewhere(r) {
		var there TraceResult
		err := call.Park(ctx, func(ctx context.Context) error { return s.opts.Elsewhere(ctx, r.Node, errandTrace, p, &there) })
		if err == nil || !unreachable(err) {
			return there, err
		}
	}
	return s.traceHere(ctx, p)
}

// traceHere returns the spans of a run, including the turn under way if the run runs
// here.
func (s *Service) traceHere(ctx context.Context, p TraceParams) (TraceResult, error) {
	var now underWay
	if l := s.find(p.Run); l != nil {
		now = l.underWay()
	}
	t := tracing{after: p.After, limit: cmp.Or(p.Limit, 200), now: now, result: TraceResult{Spans: []Span{}}}
	all := story{done: t.take}
	if err := readDiary(ctx, s.shelf.peek(ctx, p.Run), "run/"+p.Run, s.opts.Sealer, all.read); err != nil {
		return TraceResult{}, told(err)
	}
	n := len(all.turns)
	if n > 0 {
		t.take(n-1, all.turns[n-1])
	}
	if now.n > n { // the model has not answered yet
		t.room(n, func() { t.add(now.asked()) })
		n = now.n
	}
	t.result.Turns = n
	return t.result, nil
}

// tracing makes a page of spans.
type tracing struct {
	after, limit int
	now          underWay
	result       TraceResult
}

// room calls add if turn i is on the page.
func (t *tracing) room(i int, add func()) {
	switch {
	case i < t.after || t.result.NextAfter > 0:
	case i >= t.after+t.limit:
		t.result.NextAfter = i
	default:
		add()
	}
}

func (t *tracing) add(s Span) { t.result.Spans = append(t.result.Spans, s) }

func (t *tracing) take(i int, turn *toldTurn) {
	t.room(i, func() {
		s := turn.span()
		t.add(s)
		if turn.Assistant == nil {
			return
		}
		for j, c := range (&chat.Answer{Segments: turn.Assistant.Segments}).Calls() {
			t.add(t.call(turn, &s, j, c))
		}
	})
}

// span returns the span of a turn.
func (t *toldTurn) span() Span {
	s := Span{
		ID: turnID(t.N), Kind: modelSpan, Name: t.Model, Provider: t.Provider, Node: t.Node, State: spanOK, Code: t.Failure,
		At: t.At.UnixMilli(), TookMS: milliseconds(t.Took), Input: t.Usage.Input, Output: t.Usage.Output, Cost: t.Cost,
	}
	if t.Failure != "" {
		s.State = spanFailed
	}
	return s
}

// call returns the span of a call: ended, running, or unknown after a stop of the
// bridge.
func (t *tracing) call(turn *toldTurn, of *Span, j int, c *chat.ToolCall) Span {
	s := Span{
		ID: fmt.Sprintf("%s.%d", of.ID, j+1), Parent: of.ID, Kind: toolSpan, Name: c.Name, Node: of.Node, CallID: c.ID,
		About: about(string(argsJSON(c))), State: spanUnknown, At: of.At + int64(of.TookMS),
	}
	if turn.after != nil && j < len(turn.after.Runs) {
		return s.ended(&turn.after.Runs[j])
	}
	if t.now.n != turn.N {
		return s
	}
	s.State = spanRunning
	for _, e := range t.now.calls {
		if e.CallID != c.ID {
			continue
		}
		s.At = e.at.UnixMilli()
		if e.State != "started" {
			s.State, s.Code, s.TookMS, s.Replayed = e.State, e.Code, e.Duration, e.Replayed
		}
	}
	return s
}

// ended returns the span of a call with its result.
func (s Span) ended(r *ToolRun) Span {
	s.State, s.TookMS, s.Replayed = spanOK, r.DurationMS, r.Replayed
	if !r.At.IsZero() {
		s.At = r.At.UnixMilli()
	}
	if s.Code = codeIn(r.Result); s.Code != "" {
		s.State = spanFailed
	}
	return s
}

// underWay is the turn that a live run is in.
type underWay struct {
	n     int // 0: none yet
	at    time.Time
	node  string
	calls []callUnderWay
}

type callUnderWay struct {
	toolEvent
	at time.Time // when it began
}

// asked returns the span of a turn without an answer.
func (u *underWay) asked() Span {
	return Span{ID: turnID(u.n), Kind: modelSpan, Node: u.node, State: spanRunning, At: u.at.UnixMilli()}
}

func (l *live) underWay() underWay {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.turn
	u.calls = append([]callUnderWay(nil), u.calls...)
	return u
}

// heard updates the turn under way by an event of the run. The caller holds l.mu.
func (l *live) heard(data any, now time.Time) {
	switch e := data.(type) {
	case turnEvent:
		l.turn = underWay{n: e.n, at: now, node: e.Node}
	case answerEvent:
		r := *l.record
		r.Turns, r.Tokens, r.Cost = e.Turns, e.Tokens, e.Cost
		l.record = &r
	case toolEvent:
		for i := range l.turn.calls {
			if c := &l.turn.calls[i]; c.Message == e.Message {
				c.toolEvent = e
				return
			}
		}
		if strings.HasPrefix(e.Message, turnID(l.turn.n)+".") {
			l.turn.calls = append(l.turn.calls, callUnderWay{e, now})
		}
	}
}
