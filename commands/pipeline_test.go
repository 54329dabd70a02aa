package commands_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

func greet(_ context.Context, _ *commands.Call, name string) (string, error) {
	return "hello " + name, nil
}

func TestRefusalsAreAnsweredByEnvelope(t *testing.T) {
	t.Parallel()
	hello := commands.New(commands.Spec{Name: "test.hello", Aliases: []string{"test.greet"}, Summary: "Greet.", Action: "test:hello"},
		func(ctx context.Context, call *commands.Call, p struct {
			Name string `json:"name" len:"1-8"`
		}) (text, error) {
			return text{"hello " + p.Name}, nil
		})
	n := newNode(t, commands.RouterOptions{BridgeID: "bridge-1"}, hello)
	for name, tc := range map[string]struct {
		body, id string
		code     protocol.Code
		detail   string
		want     any
	}{
		"not JSON":        {`{`, "", protocol.MalformedEnvelope, "", nil},
		"version":         {strings.Replace(string(envelope("1", "test.hello", `{}`)), "0.6.3", "1.0.0", 1), "1", protocol.UnsupportedVersion, "", nil},
		"unknown command": {string(envelope("2", "test.helo", `{}`)), "2", protocol.UnknownCommand, "did_you_mean", "test.hello"},
		"missing":         {string(envelope("3", "test.hello", `{}`)), "3", protocol.InvalidParameter, "param_name", "name"},
		"unknown param":   {string(envelope("4", "test.hello", `{"name":"x","nme":1}`)), "4", protocol.InvalidParameter, "did_you_mean", "name"},
		"too long":        {string(envelope("5", "test.hello", `{"name":"123456789"}`)), "5", protocol.InvalidParameter, "reason", "must have 1 to 8 characters, has 9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := n.Handle(t.Context(), n.inbound([]byte(tc.body)))
			if r.Err == nil || r.Err.Code != tc.code || r.ID != tc.id {
				t.Fatalf("got id %q, %v", r.ID, r.Err)
			}
			if tc.detail != "" && r.Err.Details[tc.detail] != tc.want {
				t.Errorf("%s is %v, want %v", tc.detail, r.Err.Details[tc.detail], tc.want)
			}
			if r.Metadata.SenderID != "bridge-1" || r.Version != protocol.Version {
				t.Errorf("answered as %+v", r)
			}
		})
	}
}

func TestAnswerEchoesTheRequest(t *testing.T) {
	t.Parallel()
	n := newNode(t, commands.RouterOptions{}, define("hello", commands.Read, greet))
	r := n.call("42", "test.hello", `{"text":"you"}`, `"trace_id":"t-1"`)
	wantSaid(t, r, `{"text":"hello you"}`)
	if r.ID != "42" || r.Metadata.TraceID != "t-1" || r.Metadata.SenderID != "aibridge" || len(r.Metadata.Warnings) != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestAliasesWork(t *testing.T) {
	t.Parallel()
	c := commands.New(commands.Spec{Name: "test.invoke", Aliases: []string{"test.call"}, Summary: "x", Action: "test:invoke"},
		func(_ context.Context, call *commands.Call, _ struct{}) (text, error) { return text{call.Command}, nil })
	n := newNode(t, commands.RouterOptions{}, c)
	r := n.call("1", "test.call", `{}`)
	wantSaid(t, r, `{"text":"test.invoke"}`)
	if w := strings.Join(r.Metadata.Warnings, "; "); w != "test.call is deprecated, use test.invoke" {
		t.Errorf("warnings: %s", w)
	}
	// The new name asks for the same.
	if r := n.call("1", "test.invoke", `{}`); r.Err != nil || len(r.Metadata.Warnings) != 0 {
		t.Errorf("got %v, %v", r.Err, r.Metadata.Warnings)
	}
}

func TestErrorsReachTheCallerWithoutTheirCause(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	n := newNode(t, commands.RouterOptions{Log: slog.New(slog.NewTextHandler(&log, nil))},
		define("fail", commands.Read, func(_ context.Context, _ *commands.Call, how string) (string, error) {
			switch how {
			case "panic":
				panic("the password is 1234")
			case "plain":
				return "", errors.New("the password is 1234")
			}
			return "half", protocol.Errorf(protocol.AgentOffline, "agent x is offline").With("agent_id", "x")
		}))
	for how, want := range map[string]string{"panic": "internal error", "plain": "internal error"} {
		r := n.call(how, "test.fail", `{"text":"`+how+`"}`)
		wantSaid(t, r, "5000")
		if r.Err.Message != want || strings.Contains(string(r.Append(nil)), "1234") {
			t.Errorf("%s: got %s", how, r.Append(nil))
		}
	}
	r := n.call("own", "test.fail", `{"text":"own"}`)
	if r.Err.Code != protocol.AgentOffline || r.Err.Details["agent_id"] != "x" || string(r.Result) != `{"text":"half"}` {
		t.Errorf("got %s", r.Append(nil))
	}
	logged := log.String()
	for _, want := range []string{"panic: the password is 1234", "pipeline_test.go", "id=plain", "command=test.fail"} {
		if !strings.Contains(logged, want) {
			t.Errorf("the log lacks %q:\n%s", want, logged)
		}
	}
}

// policy refuses what it is told to.
type policy struct {
	action string
	asked  []string
}

func (p *policy) Authorize(_ context.Context, who *protocol.Principal, action string, on commands.Resource) error {
	p.asked = append(p.asked, who.ID+" "+action+" "+on.Type+"/"+on.ID)
	if action == p.action {
		return protocol.Errorf(protocol.PermissionDenied, "no")
	}
	return nil
}

func (p *policy) ActFor(_ context.Context, who *protocol.Principal, sender string) error {
	if sender == who.ID+"-device" {
		return nil
	}
	return protocol.Errorf(protocol.PermissionDenied, "%s may not act for %s", who.ID, sender)
}

type lampParams struct {
	ID string `json:"id"`
}

func (p *lampParams) Target() commands.Resource { return commands.Resource{Type: "lamp", ID: p.ID} }

func TestEveryCallIsAuthorized(t *testing.T) {
	t.Parallel()
	ran := 0
	lamp := func(verb string) commands.Command {
		return commands.New(commands.Spec{Name: "lamp." + verb, Summary: "x", Action: "lamp:" + verb},
			func(context.Context, *commands.Call, lampParams) (struct{}, error) { ran++; return struct{}{}, nil })
	}
	p := &policy{action: "lamp:break"}
	n := newNode(t, commands.RouterOptions{Authorizer: p}, lamp("on"), lamp("break"))
	wantSaid(t, n.call("1", "lamp.on", `{"id":"l1"}`), `{}`)
	wantSaid(t, n.call("2", "lamp.break", `{"id":"l1"}`), "2003")
	wantSaid(t, n.call("3", "lamp.on", `{"id":"l1"}`, `"sender_id":"alice-device"`), `{}`)
	wantSaid(t, n.call("4", "lamp.on", `{"id":"l1"}`, `"sender_id":"bob"`), "2003")
	wantSaid(t, n.Handle(t.Context(), commands.Inbound{Body: envelope("5", "lamp.on", `{"id":"l1"}`)}), "2001")
	if ran != 2 {
		t.Errorf("%d ran", ran)
	}
	if got := strings.Join(p.asked, ", "); got != "alice lamp:on lamp/l1, alice lamp:break lamp/l1, alice lamp:on lamp/l1" {
		t.Errorf("asked %s", got)
	}
	// A refusal is not remembered.
	p.action = ""
	wantSaid(t, n.call("2", "lamp.break", `{"id":"l1"}`), `{}`)
}

func TestARouterWithoutAnAuthorizerRefusesEverything(t *testing.T) {
	t.Parallel()
	set, err := commands.NewSet(define("hello", commands.Read, greet))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{commands.NewRouter(set, commands.RouterOptions{}), &protocol.Principal{ID: "x"}}
	defer n.Close(t.Context())
	wantSaid(t, n.call("1", "test.hello", `{}`), "2003")
}

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("waits for what is in flight and takes nothing new", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			n := newNode(t, commands.RouterOptions{}, define("sleep", commands.Read, func(context.Context, *commands.Call, string) (string, error) {
				time.Sleep(time.Second)
				return "slept", nil
			}))
			answer := n.submit("1", "test.sleep", `{}`)
			synctest.Wait()
			go func() {
				time.Sleep(time.Millisecond)
				wantSaid(t, n.call("2", "test.sleep", `{}`), "5002")
			}()
			if err := n.Close(t.Context()); err != nil {
				t.Error(err)
			}
			wantSaid(t, <-answer, `{"text":"slept"}`)
		})
	})
	t.Run("gives up with its context", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			n := newNode(t, commands.RouterOptions{}, define("hang", commands.Read, func(ctx context.Context, _ *commands.Call, _ string) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			}))
			answer := n.submit("1", "test.hang", `{}`)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := n.Close(ctx); err == nil {
				t.Error("nothing was left")
			}
			wantSaid(t, <-answer, "5002")
			synctest.Wait()
			if len(answer) != 0 {
				t.Error("answered twice")
			}
		})
	})
}
