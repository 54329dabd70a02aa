package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func callClauses() []clause {
	const call = "docs/protocol.md#an-agents-side-of-a-call"
	return []clause{
		{name: "call/echo", where: call, says: "the agent answers a request with a response of its id on its response topic", run: echoes},
		{name: "call/values", where: "docs/protocol.md#what-is-strict-and-what-is-not", says: "params and results are any JSON, in UTF-8", run: echoesAnything},
		{name: "call/unknown-fields", where: "docs/protocol.md#what-is-strict-and-what-is-not", says: "unknown fields of the envelope and of metadata are ignored; extension may be there", run: ignoresUnknownFields},
		{name: "call/sparse", where: "docs/protocol.md#request", says: "timestamp may be 0; priority, timeout and trace_id may be left out; so may params of the capability", run: takesSparseRequests},
		{name: "call/repeated-trace", where: "docs/protocol.md#request", says: "each answer carries the id and the trace_id of its own request", run: keepsCallsApart},
		{name: "call/unknown-skill", where: "docs/protocol.md#codes", says: "a skill that the agent does not serve is 3001", run: refuses("skill.invoke", `{"skill_id":"another","capability_id":"echo","params":{}}`, protocol.NotFound)},
		{name: "call/unknown-capability", where: "docs/protocol.md#codes", says: "a capability that the skill has not is 3001", run: refuses("skill.invoke", `{"skill_id":"`+Skill+`","capability_id":"dance","params":{}}`, protocol.NotFound)},
		{name: "call/unknown-command", where: "docs/protocol.md#codes", says: "a command that the agent does not know is 1002", run: refuses("lamp.switch", `{}`, protocol.UnknownCommand)},
		{name: "call/wrong-params", where: "docs/protocol.md#response", says: "params that do not fit are 1001 with param_name and reason, also when the bridge did not check them", run: refusesWrongParams},
		{name: "call/missing-params", where: "docs/protocol.md#response", says: "a required param that is missing is 1001 with its name", needs: "add", run: refusesMissingParams},
		{name: "call/limits", where: "docs/protocol.md#response", says: "a param beyond the limits of its schema is 1001 with its name", needs: "add", run: refusesParamsBeyondLimits},
		{name: "call/failure", where: "docs/protocol.md#codes-of-agents", says: "an error of the agent has a code of four digits, a message and details", run: failsWithACode},
		{name: "call/crash", where: "docs/protocol.md#codes-of-agents", says: "what goes wrong inside a handler is 5000 and does not tell its text", run: hidesCrashes},
		{name: "call/large", where: "docs/protocol.md#what-is-strict-and-what-is-not", says: "a message is not more than 1 MiB: a larger result is an error, and the connection stays", needs: "fill", run: boundsAnswers},
		{name: "call/parallel", where: call, says: "work that takes long keeps nobody else waiting", run: worksInParallel},
		{name: "call/many", where: "docs/protocol.md#codes", says: "each of many calls at a time is answered: with a result, or with 4008 and retry_after_ms", run: answersMany},
	}
}

func echoes(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("echo", `{"value":"hello"}`))
	if err != nil {
		return err
	}
	r, err := x.response(ctx)
	switch {
	case err != nil:
		return err
	case r.Err != nil:
		return r.Err
	case !equal(r.Result, []byte(`{"value":"hello"}`)):
		return fmt.Errorf(`result is %s, not {"value":"hello"}`, r.Result)
	case r.Version != protocol.Version:
		return fmt.Errorf("version is %q, not %s", r.Version, protocol.Version)
	case r.Metadata.SenderID != "" && r.Metadata.SenderID != string(s.bridge.agent):
		return fmt.Errorf("metadata.sender_id is %q, the agent is %q", r.Metadata.SenderID, s.bridge.agent)
	}
	return nil
}

func echoesAnything(ctx context.Context, s *stage) error {
	for _, value := range []string{
		`null`, `true`, `0`, `-1`, `1.5`, `9007199254740991`, `1e200`, `""`, `[]`, `{}`, `[1,[2,[3,{"a":null}]]]`,
		`"Grüße, 世界 🌡️ \u2028 \" \\ \/ \t\u0000"`, `{"":{"é":[true,false,null]}}`, `"` + strings.Repeat("long ", 20_000) + `"`,
	} {
		x, err := s.send(ctx, invocation("echo", `{"value":`+value+`}`))
		if err != nil {
			return err
		}
		r, err := x.response(ctx)
		switch {
		case err != nil:
			return err
		case r.Err != nil:
			return fmt.Errorf("echo of %.100s: %w", value, r.Err)
		case !equal(r.Result, []byte(`{"value":`+value+`}`)):
			return fmt.Errorf("echo of %.100s is %.100s", value, r.Result)
		}
	}
	return nil
}

func ignoresUnknownFields(ctx context.Context, s *stage) error {
	r := invocation("echo", `{"value":1}`)
	r.Extension = []byte(`{"vendor":{"x":[1,2]}}`)
	var envelope map[string]any
	if err := json.Unmarshal(r.Append(nil), &envelope); err != nil {
		return err
	}
	envelope["mood"] = "fine"
	envelope["metadata"].(map[string]any)["weather"] = []int{1}
	payload, err := json.Marshal(envelope)
	if err != nil {
		return err
	}
	x := &exchange{stage: s, id: r.ID, trace: r.Metadata.TraceID, payload: payload, place: s.bridge.record.here()}
	if err := x.again(ctx); err != nil {
		return err
	}
	var result any
	return x.result(ctx, &result)
}

func takesSparseRequests(ctx context.Context, s *stage) error {
	for _, sparse := range []string{
		`{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":"skill.invoke","params":{"skill_id":"conformance","capability_id":"echo","params":{"value":2}},"metadata":{}}`,
		`{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":"skill.invoke","params":{"skill_id":"conformance","capability_id":"count"},"metadata":{"priority":"high","timeout":20000.0}}`,
		"\n{ \"metadata\" : { } , \"params\" : { \"capability_id\" : \"count\", \"params\" : null, \"skill_id\" : \"conformance\" } , \"id\" : %q , \"command\":\"skill.invoke\", \"type\":\"request\", \"timestamp\":1e3, \"version\":\"0.6.3\" }\n",
	} {
		id := protocol.NewID()
		x := &exchange{stage: s, id: id, payload: fmt.Appendf(nil, sparse, id), place: s.bridge.record.here()}
		if err := s.deliver(ctx, x.payload, ""); err != nil {
			return err
		}
		var result any
		if err := x.result(ctx, &result); err != nil {
			return err
		}
	}
	return nil
}

func keepsCallsApart(ctx context.Context, s *stage) error {
	var all []*exchange
	for i := range 20 {
		x, err := s.send(ctx, invocation("echo", fmt.Sprintf(`{"value":%d}`, i)))
		if err != nil {
			return err
		}
		all = append(all, x)
	}
	for i, x := range all {
		var result struct {
			Value int `json:"value"`
		}
		if err := x.result(ctx, &result); err != nil {
			return err
		}
		if result.Value != i {
			return fmt.Errorf("the answer to call %d is %d", i, result.Value)
		}
	}
	return nil
}

func refuses(command, params string, want protocol.Code) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		x, err := s.send(ctx, request(command, params))
		if err != nil {
			return err
		}
		_, err = x.failure(ctx, want)
		return err
	}
}

func refusesWrongParams(ctx context.Context, s *stage) error {
	return s.refusesParams(ctx, "slow", map[string]string{`{"ms":"soon"}`: "ms", `{"ms":{}}`: "ms"})
}

func refusesMissingParams(ctx context.Context, s *stage) error {
	return s.refusesParams(ctx, "add", map[string]string{`{"a":1}`: "b", `{"b":1}`: "a"})
}

func refusesParamsBeyondLimits(ctx context.Context, s *stage) error {
	return s.refusesParams(ctx, "add", map[string]string{`{"a":1001,"b":0}`: "a", `{"a":0,"b":-1001}`: "b", `{"a":1.5,"b":0}`: "a"})
}

// refusesParams sends params and expects each to be refused with the name of
// the wrong one.
func (s *stage) refusesParams(ctx context.Context, capability string, wrong map[string]string) error {
	for params, name := range wrong {
		x, err := s.send(ctx, invocation(capability, params))
		if err != nil {
			return err
		}
		e, err := x.failure(ctx, protocol.InvalidParameter)
		if err != nil {
			return err
		}
		if got, _ := e.Details["param_name"].(string); got != name && got != "params."+name {
			return fmt.Errorf("%s with %s: details.param_name is %q, not %q", capability, params, got, "params."+name)
		}
		if reason, _ := e.Details["reason"].(string); reason == "" {
			return fmt.Errorf("%s with %s: details.reason is missing", capability, params)
		}
	}
	return nil
}

func failsWithACode(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("fail", `{"code":"3006","message":"the oven is off","details":{"oven":"off"}}`))
	if err != nil {
		return err
	}
	e, err := x.failure(ctx, protocol.InvalidState)
	if err != nil {
		return err
	}
	if e.Message != "the oven is off" || e.Details["oven"] != "off" {
		return fmt.Errorf("its error is %q with %v, not %q with oven: off", e.Message, e.Details, "the oven is off")
	}
	return nil
}

func hidesCrashes(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("fail", `{"message":"password is hunter2"}`))
	if err != nil {
		return err
	}
	e, err := x.failure(ctx, protocol.Internal)
	if err != nil {
		return err
	}
	if text, _ := json.Marshal(e); strings.Contains(string(text), "hunter2") {
		return fmt.Errorf("it tells the caller the text of an error of its inside: %s", text)
	}
	return s.echo(ctx)
}

func boundsAnswers(ctx context.Context, s *stage) error {
	place := s.bridge.record.here()
	x, err := s.send(ctx, invocation("fill", fmt.Sprintf(`{"bytes":%d}`, 2*protocol.DefaultMaxBytes)))
	if err != nil {
		return err
	}
	r, err := x.response(ctx)
	if err != nil {
		return err
	}
	if r.Err == nil {
		return fmt.Errorf("it answers with %d bytes", len(r.Result))
	}
	if n := s.bridge.record.count(place, isKind(disconnected)); n > 0 {
		return fmt.Errorf("the connection ended")
	}
	return s.echo(ctx)
}

func worksInParallel(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("slow", `{"ms":300000}`))
	if err != nil {
		return err
	}
	if err := s.running(ctx, x.id); err != nil {
		return err
	}
	if err := s.echo(ctx); err != nil {
		return fmt.Errorf("while it is at work on another call: %w", err)
	}
	return s.cancel(ctx, x.id)
}

func answersMany(ctx context.Context, s *stage) error {
	var all []*exchange
	for range 200 {
		x, err := s.send(ctx, invocation("slow", `{"ms":10}`))
		if err != nil {
			return err
		}
		all = append(all, x)
	}
	for _, x := range all {
		r, err := x.response(ctx)
		if err != nil {
			return err
		}
		if r.Err != nil && (r.Err.Code != protocol.Busy || r.Err.RetryAfter() < time.Millisecond) {
			return fmt.Errorf("one of 200 calls at a time is answered with %w %v", r.Err, r.Err.Details)
		}
	}
	return s.echo(ctx)
}
