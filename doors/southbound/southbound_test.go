package southbound

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

// a scriptedRouter answers one attempt after the other, the last answer again and
// again.
type scriptedRouter struct {
	mu      sync.Mutex
	answers []any // a result, or an error; nil never answers
	asked   []*protocol.Request
	at      []time.Time
	events  int // told before each answer
}

func (s *scriptedRouter) Submit(in commands.Inbound, reply func(*protocol.Response)) {
	req, err := protocol.DecodeRequest(in.Body, protocol.Limits{})
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	s.asked, s.at = append(s.asked, req), append(s.at, time.Now())
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	for range s.events {
		in.Emit(&protocol.Event{ID: req.ID, Name: "llm.delta"})
	}
	r := req.Answer("aibridge", time.Now())
	switch answer := answer.(type) {
	case nil:
		return
	case *protocol.Error:
		r.Err = answer
	case string:
		r.Result = []byte(answer)
	}
	reply(r)
	for i := range r.Result { // it is not good any longer
		r.Result[i] = 'x'
	}
}

func translator(s *scriptedRouter) *Translator {
	return New(Options{Router: s, Self: protocol.SouthboundPeer{Component: "mcpAgent", ID: "mcp-agent-1"}})
}

// request is one with that metadata.
func request(operation, payload, metadata string) []byte {
	return fmt.Appendf(nil, `{"protocol_version":"0.6.3","command_id":"cmd-1","timestamp":%q,"source":{"component":"Skills","id":"a2ui"},"operation":%q,"payload":%s,"metadata":{%s}}`,
		time.Now().UTC().Format(time.RFC3339), operation, payload, metadata)
}

func TestOperationsBecomeCommands(t *testing.T) {
	for operation, want := range map[string]struct{ command, params string }{
		"execute-llm-query":          {"llm.query", `{"query":"a"}`},
		"execute-llm-advanced-query": {"llm.advanced-query", `{"query":"a"}`},
		"get-llm-status":             {"llm.status", `{}`},
		"list-llm-models":            {"llm.models", `{}`},
	} {
		s := &scriptedRouter{answers: []any{`{"ok":1}`}}
		r := translator(s).Handle(t.Context(), commands.Inbound{Body: request(operation, `{"query":"a"}`, `"priority":"low","timeout":5,"trace_id":"t-1"`)})
		if r.Err != nil || string(r.Payload) != `{"ok":1}` || r.Attempts != 1 || r.Destination.ID != "a2ui" || r.Source.ID != "mcp-agent-1" || r.CommandID != "cmd-1" {
			t.Errorf("%s: %+v", operation, r)
		}
		asked := s.asked[0]
		if asked.Command != want.command || string(asked.Params) != want.params || asked.ID != "cmd-1" || asked.Timestamp != 0 ||
			asked.Metadata.SenderID != "a2ui" || asked.Metadata.Priority != protocol.Low || asked.Metadata.TraceID != "t-1" ||
			asked.Metadata.Timeout > 5*time.Second || asked.Metadata.Timeout < 4*time.Second {
			t.Errorf("%s: asked %+v", operation, asked)
		}
	}
}

func TestWhatCannotBeTranslatedIsAnsweredAtOnce(t *testing.T) {
	for text, want := range map[string]protocol.SouthboundCode{
		string(request("reboot", `{}`, ``)): protocol.SouthboundParameter,
		`{"protocol_version":"0.6.3","command_id":"cmd-1","operation":"get-llm-status","payload":7}`: protocol.SouthboundFormat,
		`{"protocol_version":"1.0.0","command_id":"cmd-1","operation":"get-llm-status"}`:             protocol.SouthboundFormat,
		`{`: protocol.SouthboundFormat,
	} {
		s := &scriptedRouter{answers: []any{`{}`}}
		r := translator(s).Handle(t.Context(), commands.Inbound{Body: []byte(text)})
		if r.Err == nil || protocol.SouthboundCodeOf(r.Err) != want || len(s.asked) != 0 || r.Attempts != 0 {
			t.Errorf("%s: %+v", text, r.Err)
		}
	}
}

func TestWhatMayGoBetterIsTriedAgain(t *testing.T) {
	busy, denied := protocol.BusyFor(0, "busy"), protocol.Errorf(protocol.PermissionDenied, "no")
	down := protocol.Errorf(protocol.LLMUnavailable, "down")
	for name, test := range map[string]struct {
		answers  []any
		metadata string
		events   int
		attempts int
		code     protocol.SouthboundCode // "" for a success
		least    time.Duration           // it takes
		most     time.Duration
	}{
		"at once":             {[]any{`{}`}, ``, 0, 1, "", 0, 0},
		"the second time":     {[]any{busy, `{}`}, ``, 0, 2, "", 200 * time.Millisecond, 250 * time.Millisecond},
		"the fourth time":     {[]any{busy, down, protocol.Errorf(protocol.Internal, "x"), `{}`}, ``, 0, 4, "", 1400 * time.Millisecond, 1750 * time.Millisecond},
		"never":               {[]any{down}, ``, 0, 4, protocol.SouthboundUnavailable, 1400 * time.Millisecond, 1750 * time.Millisecond},
		"not again":           {[]any{busy}, `"retry_count":0`, 0, 1, protocol.SouthboundBusy, 0, 0},
		"as often as asked":   {[]any{busy}, `"retry_count":1`, 0, 2, protocol.SouthboundBusy, 200 * time.Millisecond, 250 * time.Millisecond},
		"refused":             {[]any{denied}, ``, 0, 1, protocol.SouthboundPermission, 0, 0},
		"when it is told to":  {[]any{protocol.BusyFor(3*time.Second, "busy"), `{}`}, ``, 0, 2, "", 3 * time.Second, 3750 * time.Millisecond},
		"not that late":       {[]any{protocol.BusyFor(time.Minute, "busy")}, `"timeout":600`, 0, 1, protocol.SouthboundBusy, 0, 0},
		"not beyond its time": {[]any{protocol.BusyFor(3*time.Second, "busy")}, `"timeout":2`, 0, 1, protocol.SouthboundBusy, 0, 0},
		"not after a word":    {[]any{down}, ``, 1, 1, protocol.SouthboundUnavailable, 0, 0},
		"not without models":  {[]any{protocol.Errorf(protocol.LLMUnavailable, "none").With("reason", "unconfigured")}, ``, 0, 1, protocol.SouthboundUnavailable, 0, 0},
		"not with a bad key":  {[]any{protocol.Errorf(protocol.LLMRefused, "401").With("reason", "auth")}, ``, 0, 1, protocol.SouthboundUnavailable, 0, 0},
		"later, if limited":   {[]any{protocol.Errorf(protocol.LLMUnavailable, "429").With("reason", "rate_limited"), `{}`}, ``, 0, 2, "", 200 * time.Millisecond, 250 * time.Millisecond},
		"not while stopping":  {[]any{protocol.Errorf(protocol.ShuttingDown, "bye")}, ``, 0, 1, protocol.SouthboundUnavailable, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := &scriptedRouter{answers: test.answers, events: test.events}
				began, heard := time.Now(), ""
				r := translator(s).Handle(t.Context(), commands.Inbound{
					Body: request("execute-llm-query", `{"query":"a"}`, test.metadata),
					Emit: func(e *protocol.Event) { heard = e.ID },
				})
				took := time.Since(began)
				code := protocol.SouthboundCode("")
				if r.Err != nil {
					code = protocol.SouthboundCodeOf(r.Err)
				}
				if code != test.code || r.Attempts != test.attempts || len(s.asked) != test.attempts || took < test.least || took > test.most {
					t.Errorf("%s after %d attempts and %v", code, len(s.asked), took)
				}
				if test.events > 0 && heard != "cmd-1" {
					t.Errorf("the event is of %q", heard)
				}
				left, seen := time.Hour, map[string]bool{}
				for _, asked := range s.asked {
					if asked.Metadata.Timeout > left || seen[asked.ID] {
						t.Errorf("attempt %s has %v, after %v", asked.ID, asked.Metadata.Timeout, left)
					}
					left, seen[asked.ID] = asked.Metadata.Timeout, true
				}
			})
		})
	}
}

func TestWhoIsGoneIsNotTriedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &scriptedRouter{answers: []any{protocol.BusyFor(0, "busy")}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := translator(s).Handle(ctx, commands.Inbound{Body: request("execute-llm-query", `{"query":"a"}`, ``)})
		time.Sleep(time.Hour)
		if r.Err == nil || len(s.asked) > 1 {
			t.Errorf("%d attempts, %v", len(s.asked), r.Err)
		}
	})
}

func TestAMessageThatExpiresBoundsTheTimeout(t *testing.T) {
	s := &scriptedRouter{answers: []any{`{}`}}
	translator(s).Handle(t.Context(), commands.Inbound{Body: request("get-llm-status", `{}`, `"timeout":60`), Expiry: 2 * time.Second})
	if s.asked[0].Metadata.Timeout > 2*time.Second {
		t.Errorf("it has %v", s.asked[0].Metadata.Timeout)
	}
}

func TestAnOldTimestampIsNoted(t *testing.T) {
	s := &scriptedRouter{answers: []any{`{}`}}
	body := []byte(`{"protocol_version":"0.6.3","command_id":"c","timestamp":"2020-01-23T12:00:00Z","operation":"get-llm-status"}`)
	r := translator(s).Handle(t.Context(), commands.Inbound{Body: body})
	if r.Err != nil || len(r.Warnings) != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestIdsOfAttemptsFit(t *testing.T) {
	long := strings.Repeat("ü", protocol.MaxIDLength)
	other := long[:len(long)-2] + "x"
	ids := map[string]bool{}
	for _, id := range []string{attemptID("cmd", 1), attemptID("cmd", 2), attemptID(long, 1), attemptID(long, 2), attemptID(other, 2), attemptID(long, 11)} {
		if n := len([]rune(id)); n > protocol.MaxIDLength || ids[id] {
			t.Errorf("%q has %d characters, or is used twice", id, n)
		}
		ids[id] = true
	}
	if attemptID("cmd", 1) != "cmd" || attemptID("cmd", 2) != attemptID("cmd", 2) {
		t.Error("they differ from one time to the next")
	}
}

func FuzzSubmit(f *testing.F) {
	f.Add(request("execute-llm-query", `{"query":"a"}`, `"retry_count":0`))
	f.Add([]byte(`{"protocol_version":"0.6.3","command_id":"\u0001","operation":""}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &scriptedRouter{answers: []any{`{}`}}
		r := translator(s).Handle(t.Context(), commands.Inbound{Body: body})
		if !json.Valid(r.Append(nil)) {
			t.Fatalf("%s", r.Append(nil))
		}
	})
}
