package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

func TestTheRouterAnswersBusyWhenItIsFull(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNode(t, commands.RouterOptions{MaxInFlight: 16, Workers: 1}, stubborn(time.Second))
		// send has callers send a call each, and counts those that are refused.
		send := func(callers, priority string) (refused int) {
			var answers []<-chan *protocol.Response
			for i, who := range strings.Split(callers, "") {
				caller := &node{n.Router, &protocol.Principal{ID: who}}
				answers = append(answers, caller.submit(callers+fmt.Sprint(i), "test.stubborn", `{}`, `"priority":"`+priority+`"`))
			}
			synctest.Wait()
			for _, a := range answers {
				if len(a) == 0 {
					continue
				}
				refused++
				r := <-a
				wantSaid(t, r, "4008")
				if r.Err.RetryAfter() < 100*time.Millisecond {
					t.Errorf("come back after %v", r.Err.RetryAfter())
				}
			}
			return refused
		}
		if got := send("aabbccddee", "low"); got != 2 { // half of the room
			t.Errorf("%d low ones were refused", got)
		}
		if got := send("aabbccddee", "medium"); got != 4 { // an eighth is kept for high priority
			t.Errorf("%d medium ones were refused", got)
		}
		if got := send("xyz", "high"); got != 1 {
			t.Errorf("%d high ones were refused", got)
		}
		time.Sleep(20 * time.Second)
		if got := send("aaaaaaaaaab", "medium"); got != 2 { // half for one principal
			t.Errorf("%d of one principal were refused", got)
		}
		// What was refused was never taken up: there is room for it later.
		time.Sleep(20 * time.Second)
		caller := &node{n.Router, &protocol.Principal{ID: "a"}}
		wantSaid(t, caller.call("aaaaaaaaaab9", "test.stubborn", `{}`), `{"text":"at last"}`)
	})
}

func TestAParkedCallGivesItsWorkerBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log []string
		n := newNode(t, commands.RouterOptions{Workers: 1}, define("wait", commands.Read, func(ctx context.Context, call *commands.Call, _ string) (string, error) {
			log = append(log, "park")
			err := call.Park(ctx, func(ctx context.Context) error { time.Sleep(time.Second); return nil })
			log = append(log, "resume")
			return "", err
		}), define("busy", commands.Read, func(context.Context, *commands.Call, string) (string, error) {
			time.Sleep(1500 * time.Millisecond)
			log = append(log, "busy")
			return "", nil
		}))
		waiting := n.submit("1", "test.wait", `{}`)
		synctest.Wait()
		began := time.Now()
		wantSaid(t, n.call("2", "test.busy", `{}`), `{}`)
		wantSaid(t, <-waiting, `{}`)
		if took := time.Since(began); took != 1500*time.Millisecond || strings.Join(log, " ") != "park busy resume" {
			t.Errorf("%v after %v", log, took)
		}
	})
}

func TestParkMayBeUsedByManyAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNode(t, commands.RouterOptions{Workers: 1}, define("wait", commands.Read, func(ctx context.Context, call *commands.Call, _ string) (string, error) {
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					_ = call.Park(ctx, func(context.Context) error { time.Sleep(time.Duration(i) * time.Millisecond); return nil })
				})
			}
			wg.Wait()
			return "", nil
		}), define("hello", commands.Read, greet))
		first, second := n.submit("1", "test.wait", `{}`), n.submit("2", "test.wait", `{}`)
		<-first
		<-second
		wantSaid(t, n.call("3", "test.hello", `{}`), `{"text":"hello "}`)
	})
}

func TestEventsReachThoseWhoAskedForThem(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := newNode(t, commands.RouterOptions{BridgeID: "b"}, define("work", commands.Write, func(_ context.Context, call *commands.Call, _ string) (string, error) {
			for i := range 3 {
				call.Emit("task.progress", map[string]int{"percent": i * 50})
				time.Sleep(time.Second)
			}
			return "", nil
		}))
		var got []string
		listen := func(name, metadata string) <-chan *protocol.Response {
			in := n.inbound(envelope("1", "test.work", `{}`, metadata))
			in.Emit = func(e *protocol.Event) {
				got = append(got, fmt.Sprintf("%s %s %s %d %s %s", name, e.ID, e.Name, e.Seq, e.Data, e.Metadata.TraceID))
			}
			answer := make(chan *protocol.Response, 1)
			n.Submit(in, func(r *protocol.Response) { answer <- r })
			return answer
		}
		first := listen("first", `"events":true,"trace_id":"t1"`)
		time.Sleep(1500 * time.Millisecond)
		silent, second := listen("silent", `"trace_id":"t2"`), listen("second", `"events":true,"trace_id":"t3"`)
		<-first
		<-silent
		<-second
		want := `first 1 task.progress 1 {"percent":0} t1, first 1 task.progress 2 {"percent":50} t1, ` +
			`first 1 task.progress 3 {"percent":100} t1, second 1 task.progress 1 {"percent":100} t3`
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("got  %s\nwant %s", s, want)
		}
	})
}

// backlog is Tasks that runs one call at a time, when told to.
type backlog struct {
	call *commands.Call
	run  func(context.Context) (json.RawMessage, error)
}

func (b *backlog) Start(_ context.Context, call *commands.Call, run func(context.Context) (json.RawMessage, error)) (protocol.TaskID, error) {
	b.call, b.run = call, run
	return "task-1", nil
}

func asyncCommand(fn func(context.Context, *commands.Call, string) (string, error)) commands.Command {
	return commands.New(commands.Spec{Name: "test.slow", Summary: "x", Action: "test:slow", Effect: commands.Act, Async: true},
		func(ctx context.Context, call *commands.Call, p text) (text, error) {
			out, err := fn(ctx, call, p.Text)
			return text{out}, err
		})
}

func TestAsyncAnswersAtOnceAndRunsAsATask(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tasks, claims := &backlog{}, &ledger{}
		n := newNode(t, commands.RouterOptions{Tasks: tasks, Claims: claims, Workers: 1}, asyncCommand(func(_ context.Context, call *commands.Call, s string) (string, error) {
			call.Emit("task.progress", 1)
			if s == "panic" {
				panic(s)
			}
			return s, nil
		}))
		const params = `{"text":"x","async":true}`
		wantSaid(t, n.call("1", "test.slow", params), `{"task_id":"task-1"}`)
		wantSaid(t, n.call("1", "test.slow", params), `{"task_id":"task-1"}`)
		wantSaid(t, n.call("1", "test.slow", `{"text":"x"}`), "1005")
		if len(claims.claims) != 1 {
			t.Errorf("%d claims", len(claims.claims))
		}
		var events []string
		tasks.call.SendEventsTo(func(event string, data any) { events = append(events, fmt.Sprint(event, data)) })
		result, err := tasks.run(t.Context())
		if string(result) != `{"text":"x"}` || err != nil || len(events) != 1 || tasks.call.RequestID != "1" {
			t.Errorf("ran to %s, %v with events %v", result, err, events)
		}
		n.call("2", "test.slow", `{"text":"panic","async":true}`)
		tasks.call.SendEventsTo(func(string, any) {})
		if _, err := tasks.run(t.Context()); protocol.CodeOf(err) != protocol.Internal {
			t.Errorf("a panic ends as %v", err)
		}
		wantSaid(t, n.call("3", "test.slow", `{"async":1}`), "1001")
		wantSaid(t, n.call("4", "test.slow", `{"async":true,"texd":""}`), "1001")
		wantSaid(t, n.call("5", "test.slow", `{"async":false,"text":"y"}`), `{"text":"y"}`)
		without := newNode(t, commands.RouterOptions{}, asyncCommand(greet))
		wantSaid(t, without.call("1", "test.slow", params), "1001")
	})
}

// extension is every extension point at once.
type extension struct{ log []string }

func (x *extension) Parse(body []byte, door string) (*protocol.Request, error) {
	words := strings.Fields(string(body))
	if words[0] != "say" {
		return nil, nil
	}
	if len(words) < 2 {
		return &protocol.Request{ID: "short"}, protocol.Errorf(protocol.MalformedEnvelope, "say what?")
	}
	return &protocol.Request{ID: words[1], Command: "test.hello", Params: []byte(`{"text":"` + door + `"}`),
		Metadata: protocol.Metadata{Timeout: time.Second}}, nil
}

func (x *extension) Check(_ context.Context, _ *commands.Call, action string, _ commands.Resource) error {
	if action == "test:forbidden" {
		return protocol.Errorf(protocol.OutsideScope, "not that")
	}
	return nil
}

func (x *extension) Process(ctx context.Context, call *commands.Call, params json.RawMessage, next commands.Next) (json.RawMessage, error) {
	x.log = append(x.log, "before "+call.Command+string(params))
	result, err := next(ctx)
	x.log = append(x.log, "after")
	return append(result[:len(result)-1], `,"seen":true}`...), err
}

func (x *extension) HandleError(_ context.Context, call *commands.Call, err *protocol.Error) *protocol.Error {
	x.log = append(x.log, "error "+string(err.Code))
	if err.Code == protocol.OutsideScope {
		return protocol.Errorf(protocol.PermissionDenied, "rewritten")
	}
	return nil
}

func TestExtensionPoints(t *testing.T) {
	t.Parallel()
	x := &extension{}
	n := newNode(t, commands.RouterOptions{Extensions: commands.Extensions{
		Parsers: []commands.Parser{x}, Permissions: []commands.PermissionCheck{x}, Processors: []commands.MessageProcessor{x}, ErrorHandler: x,
	}}, define("hello", commands.Read, greet), define("forbidden", commands.Read, greet))
	r := n.Handle(t.Context(), n.inbound([]byte("say 7")))
	wantSaid(t, r, `{"text":"hello test","seen":true}`)
	if r.ID != "7" {
		t.Errorf("answered as %q", r.ID)
	}
	wantSaid(t, n.Handle(t.Context(), n.inbound([]byte("say"))), "1000")
	wantSaid(t, n.call("1", "test.hello", `{"text":"x"}`), `{"text":"hello x","seen":true}`)
	wantSaid(t, n.call("2", "test.forbidden", `{}`), "2003")
	wantSaid(t, n.call("3", "test.none", `{}`), "1002")
	want := `before test.hello{"text":"test"}|after|error 1000|before test.hello{"text":"x"}|after|error 2008|error 1002`
	if got := strings.Join(x.log, "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDispatchOnBehalfOfACall(t *testing.T) {
	t.Parallel()
	n := newNode(t, commands.RouterOptions{Workers: 1}, define("inner", commands.Write, func(_ context.Context, call *commands.Call, s string) (string, error) {
		call.Warn("careful with %s", s)
		if s == "fail" {
			return "", errors.New("secret")
		}
		return call.RequestID + " for " + call.SenderID, nil
	}), define("outer", commands.Write, func(ctx context.Context, call *commands.Call, s string) (string, error) {
		var said []string
		for range 2 {
			result, err := call.Dispatch(ctx, "test.inner", raw(`{"text":%q}`, s), "")
			said = append(said, string(result)+" "+string(protocol.CodeOf(err)))
		}
		_, err := call.Dispatch(ctx, "test.inner", raw(`{"text":1,"text":2}`), "x")
		said = append(said, string(protocol.CodeOf(err)))
		return strings.Join(said, "; "), nil
	}))
	r := n.call("1", "test.outer", `{"text":"x"}`)
	wantSaid(t, r, `{"text":"{\"text\":\"1#1 for alice\"} ; {\"text\":\"1#2 for alice\"} ; 1000"}`)
	if w := strings.Join(r.Metadata.Warnings, "; "); w != "test.inner: careful with x; test.inner: careful with x" {
		t.Errorf("warnings: %s", w)
	}
	wantSaid(t, n.call("2", "test.outer", `{"text":"fail"}`), `{"text":" 5000;  5000; 1000"}`)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	n := newNode(t, commands.RouterOptions{Registerer: registry}, define("hello", commands.Read, greet))
	for range 3 {
		n.call("1", "test.hello", `{}`)
	}
	n.call("1", "test.hello", `{"text":"x"}`)
	n.call("2", "test.none", `{}`)
	n.call("3", "test.whatever", `{}`)
	want := `
		# HELP aibridge_command_repeats_total Requests that were seen before: joined while running, replayed from the stored answer, in conflict with another body, or with an unknown outcome.
		# TYPE aibridge_command_repeats_total counter
		aibridge_command_repeats_total{kind="conflict"} 1
		aibridge_command_repeats_total{kind="joined"} 0
		aibridge_command_repeats_total{kind="replayed"} 2
		aibridge_command_repeats_total{kind="unknown"} 0
		# HELP aibridge_commands_in_flight Calls that were taken and are not done.
		# TYPE aibridge_commands_in_flight gauge
		aibridge_commands_in_flight 0
		# HELP aibridge_commands_remembered Requests that are known for repeats.
		# TYPE aibridge_commands_remembered gauge
		aibridge_commands_remembered 1
	`
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	if err := n.Close(ctx); err != nil { // so that nothing is in flight any more
		t.Fatal(err)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "aibridge_command_repeats_total", "aibridge_commands_in_flight", "aibridge_commands_remembered"); err != nil {
		t.Error(err)
	}
	counts := map[string]uint64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "aibridge_command_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetHistogram().GetSampleCount() > 0 {
				counts[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	if got := fmt.Sprint(counts); got != "map[test.hello 1005:1 test.hello success:3 unknown 1002:2]" {
		t.Errorf("durations: %s", got)
	}
}

func TestSpansContinueTheTraceOfTheRequest(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	inner := trace.SpanContext{}
	n := newNode(t, commands.RouterOptions{Tracer: provider.Tracer("test")}, define("hello", commands.Read, func(ctx context.Context, _ *commands.Call, _ string) (string, error) {
		inner = trace.SpanContextFromContext(ctx)
		return "", protocol.Errorf(protocol.NotFound, "nobody")
	}))
	in := n.inbound(envelope("1", "batch.execute", `{"commands":[{"command":"test.hello"}]}`))
	in.Traceparent = parent
	n.Handle(t.Context(), in)
	spans := recorder.Ended()
	if len(spans) != 2 {
		t.Fatalf("%d spans", len(spans))
	}
	hello, batch := spans[0], spans[1]
	if batch.Name() != "batch.execute" || batch.SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || batch.Parent().SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("batch is %v under %v", batch.SpanContext(), batch.Parent())
	}
	if hello.Parent().SpanID() != batch.SpanContext().SpanID() || inner.SpanID() != hello.SpanContext().SpanID() || hello.Status().Description != "nobody" {
		t.Errorf("hello is %v under %v: %v", hello.SpanContext(), hello.Parent(), hello.Status())
	}
	// Without a tracer the trace still reaches what the handler calls.
	plain := newNode(t, commands.RouterOptions{}, define("hello", commands.Read, func(ctx context.Context, _ *commands.Call, _ string) (string, error) {
		return trace.SpanContextFromContext(ctx).SpanID().String(), nil
	}))
	in = plain.inbound(envelope("1", "test.hello", `{}`))
	in.Traceparent = parent
	wantSaid(t, plain.Handle(t.Context(), in), `{"text":"b7ad6b7169203331"}`)
}

// broken panics wherever it is asked.
type broken struct{}

func (broken) Parse([]byte, string) (*protocol.Request, error) { panic("parser") }

func (broken) Check(context.Context, *commands.Call, string, commands.Resource) error {
	panic("permission")
}

func (broken) Process(context.Context, *commands.Call, json.RawMessage, commands.Next) (json.RawMessage, error) {
	panic("processor")
}

func (broken) HandleError(context.Context, *commands.Call, *protocol.Error) *protocol.Error {
	panic("error handler")
}
