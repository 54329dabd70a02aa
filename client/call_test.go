package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	paho3 "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

type sum struct {
	Sum int `json:"sum"`
}

func add(r *protocol.Request, _ *broker.Publication) (any, error) {
	var p struct{ A, B int }
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return nil, protocol.InvalidParam("params", err.Error())
	}
	return sum{p.A + p.B}, nil
}

func TestCallReturnsTheTypedResult(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("math.add", add)
	c := b.dial()
	got, err := client.Call[sum](soon(t), c, "math.add", map[string]int{"a": 2, "b": 3})
	if err != nil || got.Sum != 5 {
		t.Errorf("%v, %v", got, err)
	}
	raw, err := client.Call[json.RawMessage](soon(t), c, "math.add", json.RawMessage(`{"a":1}`))
	if err != nil || string(raw) != `{"sum":1}` {
		t.Errorf("%s, %v", raw, err)
	}
	_, err = client.Call[string](soon(t), c, "math.add", nil)
	expectCode(t, err, protocol.Internal)
}

func TestRequestSaysAllTheBridgeWantsToKnow(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	seen := make(chan protocol.Message, 1)
	b.on("x.y", func(r *protocol.Request, p *broker.Publication) (any, error) {
		m := p.Message
		m.CorrelationData = slices.Clone(p.CorrelationData)
		seen <- m
		return nil, nil
	})
	c := b.dial(client.WithClientID("me"))
	_, err := client.Call[any](soon(t), c, "x.y", nil, client.WithTrace("t1"), client.WithTraceparent("00-1-2-03"),
		client.WithPriority(protocol.High), client.WithTimeout(100*time.Second), client.OnEvent(func(*protocol.Event) {}))
	if err != nil {
		t.Fatal(err)
	}
	m, r := <-seen, b.asked("x.y")[0]
	if m.ResponseTopic != "aibridge/client/me/response" || string(m.CorrelationData) != r.ID || m.ContentType != "application/json" || m.QoS != 1 {
		t.Errorf("message %+v", m)
	}
	if m.Expiry > 100*time.Second || m.Expiry < 30*time.Second || m.Property("trace_id") != "t1" || m.Property("traceparent") != "00-1-2-03" || m.Property("version") != protocol.Version {
		t.Errorf("properties %+v", m)
	}
	md := r.Metadata
	if md.TraceID != "t1" || md.Priority != protocol.High || !md.Events || md.Timeout > 100*time.Second || md.Timeout < 30*time.Second {
		t.Errorf("metadata %+v", md)
	}
	if age := time.Since(time.UnixMilli(r.Timestamp)); age < -time.Second || age > patience {
		t.Errorf("timestamp is %v old", age)
	}
}

func TestErrorsArriveWithCodeAndDetails(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("x.y", func(*protocol.Request, *broker.Publication) (any, error) {
		return nil, protocol.InvalidParam("params.celsius", "must be at most 30")
	})
	_, err := client.Call[any](soon(t), b.dial(), "x.y", nil)
	e := expectCode(t, err, protocol.InvalidParameter)
	if e.Details["param_name"] != "params.celsius" || e.Details["reason"] != "must be at most 30" {
		t.Errorf("details %v", e.Details)
	}
}

func TestRetryFollowsTheClassOfTheError(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial()
	for _, test := range []struct {
		code  protocol.Code
		asked int // times, when the second attempt would succeed
	}{
		{protocol.InvalidParameter, 1},
		{protocol.RequestExpired, 1},
		{protocol.NotAuthenticated, 1},
		{protocol.PermissionDenied, 1},
		{protocol.NotFound, 1},
		{protocol.TimedOut, 1},
		{protocol.OutcomeUnknown, 1},
		{protocol.Internal, 1},
		{protocol.Busy, 2},
		{protocol.RateLimited, 2},
		{protocol.StoreUnavailable, 2},
		{protocol.ShuttingDown, 2},
	} {
		t.Run(string(test.code), func(t *testing.T) {
			command := "retry." + string(test.code)
			b.on(command, func(*protocol.Request, *broker.Publication) (any, error) {
				if len(b.asked(command)) > 1 {
					return sum{1}, nil
				}
				return nil, protocol.Errorf(test.code, "no").With("retry_after_ms", 20)
			})
			begun := time.Now()
			_, err := client.Call[sum](soon(t), c, command, nil)
			asked := b.asked(command)
			if len(asked) != test.asked || (err == nil) != (test.asked == 2) {
				t.Fatalf("asked %d times, %v", len(asked), err)
			}
			if test.asked == 1 {
				expectCode(t, err, test.code)
				return
			}
			if asked[0].ID != asked[1].ID {
				t.Errorf("ids %s and %s", asked[0].ID, asked[1].ID)
			}
			if asked[0].Metadata.TraceID != asked[1].Metadata.TraceID {
				t.Error("the trace was lost")
			}
			if test.code.Retry() == protocol.RetryAfter && time.Since(begun) < 20*time.Millisecond {
				t.Error("came back before it was asked to")
			}
			_, err = client.Call[sum](soon(t), c, "x.once", nil, client.WithoutRetry())
			expectCode(t, err, protocol.UnknownCommand)
		})
	}
}

func TestRetryIsGivenUpWhenTimeWouldRunOut(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("x.y", func(*protocol.Request, *broker.Publication) (any, error) {
		return nil, protocol.BusyFor(time.Hour, "later")
	})
	begun := time.Now()
	_, err := client.Call[any](soon(t), b.dial(), "x.y", nil)
	expectCode(t, err, protocol.Busy)
	if time.Since(begun) > patience/2 {
		t.Error("waited for nothing")
	}
	if n := len(b.asked("x.y")); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestLostConnectionRepeatsTheSameRequest(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial(client.WithClientID("me"))
	b.on("x.y", func(r *protocol.Request, p *broker.Publication) (any, error) {
		if len(b.asked("x.y")) == 1 {
			go b.engine.Load().Disconnect(broker.SessionID{Space: protocol.DefaultSpace, Client: "me"}, 0x98, "oops")
			return nil, errSilent
		}
		return sum{7}, nil
	})
	got, err := client.Call[sum](soon(t), c, "x.y", nil)
	if err != nil || got.Sum != 7 {
		t.Fatalf("%v, %v", got, err)
	}
	if asked := b.asked("x.y"); len(asked) != 2 || asked[0].ID != asked[1].ID {
		t.Errorf("asked %+v", asked)
	}
}

func TestCallWaitsForARestartedBridge(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("math.add", add)
	c := b.dial()
	b.stop()
	result := make(chan error, 1)
	go func() {
		_, err := client.Call[sum](soon(t), c, "math.add", nil)
		result <- err
	}()
	b.start()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestUnansweredCallSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial(client.WithClientID("me"))
	arrived := make(chan struct{}, 10)
	b.on("x.silent", func(*protocol.Request, *broker.Publication) (any, error) {
		arrived <- struct{}{}
		return nil, errSilent
	})

	for timeout := 100 * time.Millisecond; len(arrived) == 0 && timeout < patience; timeout *= 2 {
		ctx, cancel := context.WithTimeout(soon(t), timeout)
		_, err := client.Call[any](ctx, c, "x.silent", nil)
		cancel()
		if code := protocol.CodeOf(err); code == protocol.TargetUnavailable {
			continue // it was not sent in time
		}
		expectCode(t, err, protocol.TimedOut)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error("the cause was lost")
		}
	}

	<-arrived
	ctx, cancel := context.WithCancel(soon(t))
	go func() { <-arrived; cancel() }()
	_, err := client.Call[any](ctx, c, "x.silent", nil)
	expectCode(t, err, protocol.Cancelled)

	lost := make(chan error, 1)
	go func() {
		_, err := client.Call[any](soon(t), c, "x.silent", nil, client.WithTimeout(patience), client.WithoutRetry())
		lost <- err
	}()
	<-arrived
	b.stop()
	expectCode(t, <-lost, protocol.OutcomeUnknown)

	_, err = client.Call[any](soon(t), c, "x.silent", nil, client.WithTimeout(50*time.Millisecond))
	expectCode(t, err, protocol.TargetUnavailable)
	b.start()
}

func TestEventsComeInOrderAndBeforeTheResult(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("x.y", func(r *protocol.Request, p *broker.Publication) (any, error) {
		for i := range 10 {
			e := protocol.Event{ID: r.ID, Timestamp: 1, Name: "task.progress", Seq: uint64(i), Data: fmt.Appendf(nil, `{"percent":%d}`, i)}
			b.reply(p, e.Append(nil))
		}
		return nil, nil
	})
	var seqs []uint64
	_, err := client.Call[any](soon(t), b.dial(), "x.y", nil, client.OnEvent(func(e *protocol.Event) { seqs = append(seqs, e.Seq) }))
	if err != nil || !slices.Equal(seqs, []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("events %v, %v", seqs, err)
	}
}

func TestOneIDIsCalledOnceAtATime(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial()
	release := make(chan *broker.Publication, 1)
	b.on("x.y", func(r *protocol.Request, p *broker.Publication) (any, error) {
		copied := *p
		copied.CorrelationData = slices.Clone(p.CorrelationData)
		release <- &copied
		return nil, errSilent
	})
	first := make(chan error, 1)
	go func() {
		_, err := client.Call[any](soon(t), c, "x.y", nil, client.WithID("one"))
		first <- err
	}()
	p := <-release
	_, err := client.Call[any](soon(t), c, "x.y", nil, client.WithID("one"))
	expectCode(t, err, protocol.IDReused)
	b.reply(p, (&protocol.Response{ID: "one"}).Append(nil))
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestAnswersThatFitNobodyAreDropped(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial()
	b.on("x.y", func(r *protocol.Request, p *broker.Publication) (any, error) {
		stray := *p
		stray.CorrelationData = []byte("stray")
		b.reply(&stray, (&protocol.Response{ID: r.ID, Err: protocol.Errorf(protocol.Internal, "not yours")}).Append(nil))
		stray.CorrelationData = nil
		b.reply(&stray, []byte("no JSON"))
		b.reply(&stray, (&protocol.Response{ID: "stray"}).Append(nil))
		return sum{1}, nil
	})
	if got, err := client.Call[sum](soon(t), c, "x.y", nil); err != nil || got.Sum != 1 {
		t.Errorf("%v, %v", got, err)
	}
	b.on("x.garbage", func(r *protocol.Request, p *broker.Publication) (any, error) {
		b.reply(p, []byte("{"))
		return nil, errSilent
	})
	_, err := client.Call[sum](soon(t), c, "x.garbage", nil)
	expectCode(t, err, protocol.OutcomeUnknown)
}

func TestParamsMustBeAnObject(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	c := b.dial()
	for _, params := range []any{[]int{1}, json.RawMessage("1"), make(chan int)} {
		_, err := client.Call[any](soon(t), c, "x.y", params)
		if code := protocol.CodeOf(err); code != protocol.InvalidParameter && code != protocol.MalformedEnvelope {
			t.Errorf("%T: %v", params, err)
		}
	}
	if n := len(b.asked("x.y")); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

// A device with an MQTT 3.1.1 library has no properties: it finds its answers
// on its own response topic, by the id.
func TestMQTT311ClientCallsByTopicAndID(t *testing.T) {
	t.Parallel()
	b := newBridge(t)
	b.on("math.add", add)
	c := paho3.NewClient(paho3.NewClientOptions().AddBroker("tcp://" + b.addr).SetClientID("old").SetAutoReconnect(false))
	await(t, c.Connect())
	defer c.Disconnect(250)
	answers := make(chan []byte, 1)
	await(t, c.Subscribe("aibridge/client/old/response", 1, func(_ paho3.Client, m paho3.Message) { answers <- m.Payload() }))
	await(t, c.Publish("aibridge/bridge/request", 1, false,
		`{"version":"0.6.3","id":"r1","timestamp":0,"type":"request","command":"math.add","params":{"a":1,"b":1}}`))
	select {
	case payload := <-answers:
		r, err := protocol.DecodeResponse(payload, protocol.Limits{})
		if err != nil || r.ID != "r1" || r.Err != nil || string(r.Result) != `{"sum":2}` {
			t.Errorf("%s, %v", payload, err)
		}
	case <-time.After(patience):
		t.Fatal("no answer")
	}
}

func await(t *testing.T, token paho3.Token) {
	t.Helper()
	if !token.WaitTimeout(patience) || token.Error() != nil {
		t.Fatalf("MQTT 3.1.1: %v", token.Error())
	}
}

// A call through the SDK, the broker and back, against a bridge that answers
// at once.
func BenchmarkCall(b *testing.B) {
	bridge := newBridge(b)
	bridge.on("math.add", func(*protocol.Request, *broker.Publication) (any, error) { return sum{1}, nil })
	c := bridge.dial()
	params := json.RawMessage(`{"a":1,"b":2}`)
	call := func() {
		if _, err := client.Call[sum](context.Background(), c, "math.add", params); err != nil {
			b.Error(err)
		}
	}
	b.Run("one at a time", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call()
		}
	})
	b.Run("many at a time", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call()
			}
		})
	})
}
