package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/freeport"
	"github.com/aibridge/aibridge/protocol"
)

func callOf(who *protocol.Principal) *commands.Call {
	return &commands.Call{Principal: who, TraceID: "trace", Deadline: time.Now().Add(time.Minute)}
}

// atEndpoint registers an agent, with a skill, that is called at an endpoint.
func (w *world) atEndpoint(id protocol.AgentID, skill, url string) {
	w.t.Helper()
	w.do(alice, "agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"end_agent","endpoints":["mqtt://a.example:1883",%q],"skills":[%s]}`, id, url, skill), nil)
}

func TestAnAgentIsCalledAtItsEndpoint(t *testing.T) {
	t.Parallel()
	commandsGot := make(chan string, 8)
	server := serve(t, func(rw http.ResponseWriter, r *http.Request, q *protocol.Request) {
		commandsGot <- q.Command
		if r.Header.Get("X-Bridge-Caller") == "" {
			t.Error("calls of different callers look alike")
		}
		success(rw, q, `{"litres":2}`)
	})
	w := newWorld(t, allowPrivate)
	w.atEndpoint("boiler", heating, server.URL)
	var view AgentView
	if w.do(alice, "agent.get", `{"agent_id":"boiler"}`, &view); view.Status != Online {
		t.Errorf("it is %s", view.Status)
	}
	var got InvokeSkillResult
	w.do(alice, "skill.invoke", bleed, &got)
	if got.AgentID != "boiler" || string(got.Data) != `{"litres":2}` || <-commandsGot != "skill.invoke" {
		t.Errorf("got %+v", got)
	}
	if result, err := w.Forward(t.Context(), callOf(alice), "boiler", "acme.blink", json.RawMessage(`{}`)); err != nil || string(result) != `{"litres":2}` || <-commandsGot != "acme.blink" {
		t.Errorf("a command of its own: %s, %v", result, err)
	}
	closed := freeport.Address()
	w.do(alice, "agent.register", fmt.Sprintf(`{"agent_id":"boiler","type":"end_agent","endpoints":["http://%s/","%s"]}`, closed, server.URL), nil)
	w.do(alice, "skill.invoke", bleed, nil) // nothing was sent to the first
	w.do(alice, "agent.register", fmt.Sprintf(`{"agent_id":"boiler","type":"end_agent","endpoints":["http://%s/"]}`, closed), nil)
	if err := w.fails(alice, "skill.invoke", bleed, protocol.TargetUnavailable); err.Details["agent_id"] != "boiler" {
		t.Errorf("details %v", err.Details)
	}
	w.awaitNoExchanges(t)
}

func TestAnEndpointStreamsWhatItDoes(t *testing.T) {
	t.Parallel()
	server := serve(t, func(rw http.ResponseWriter, r *http.Request, q *protocol.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			t.Errorf("it may answer with %s", r.Header.Get("Accept"))
		}
		rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprintf(rw, ": it begins\r\n\r\nevent: task.progress\r\nid: 1\r\ndata: {\"id\":%q,\"type\":\"event\",\"event\":\"task.progress\",\r\ndata: \"data\":{\"percent\":50}}\r\n\r\n", q.ID)
		rw.(http.Flusher).Flush()
		fmt.Fprintf(rw, "data: {\"id\":\"nobody's\",\"type\":\"response\",\"status\":\"success\"}\n\n")
		fmt.Fprintf(rw, "data:{\"id\":%q,\"type\":\"response\",\"status\":\"success\",\"result\":{\"litres\":2}}\n\n", q.ID)
	})
	w := newWorld(t, allowPrivate)
	w.atEndpoint("boiler", heating, server.URL)
	w.do(alice, "skill.register", `{"skill":{"skill_id":"web","name":"Web","endpoints":["`+server.URL+`"],"capabilities":["bleed"]}}`, nil)
	for _, skill := range []string{"heating", "web"} {
		var events []string
		w.must(w.ask(question{who: alice, command: "skill.invoke", params: strings.Replace(bleed, "heating", skill, 1),
			emit: func(e *protocol.Event) { events = append(events, e.Name+string(e.Data)) }}), nil)
		if !slices.Equal(events, []string{`task.progress{"percent":50}`}) {
			t.Errorf("%s: events %q", skill, events)
		}
	}
}

func TestAStreamThatEndsWithoutAnAnswerLeavesTheOutcomeOpen(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":            "",
		"an event":           "data: {\"id\":%q,\"type\":\"event\",\"event\":\"task.accepted\"}\n\n",
		"half an answer":     "data: {\"id\":%q,\"type\":\"response\",\"status\":\"success\",\"result\":{\"litres\":2}}\n",
		"an answer too long": "data: {\"id\":%q,\"type\":\"response\",\"result\":\"" + strings.Repeat("r", 5000) + "\"}\n\n",
		"nonsense":           "data: {\"id\":%q,\n\n",
	} {
		server := serve(t, func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			if strings.Contains(text, "%q") {
				fmt.Fprintf(rw, text, q.ID)
			}
		})
		w := newWorld(t, allowPrivate, func(o *Options) { o.Limits.MaxBytes = 4096 })
		w.atEndpoint("boiler", heating, server.URL)
		if err := w.fails(alice, "skill.invoke", bleed, protocol.OutcomeUnknown); err.Details["reason"] == "" {
			t.Errorf("%s: %v", name, err.Details)
		}
	}
}

func TestAnAgentAtAnEndpointIsToldToStop(t *testing.T) {
	t.Parallel()
	asked, told := make(chan *protocol.Request, 1), make(chan *protocol.Request, 1)
	server := serve(t, func(rw http.ResponseWriter, r *http.Request, q *protocol.Request) {
		if q.Command == "task.cancel" {
			told <- q
			success(rw, q, `{}`)
			return
		}
		asked <- q
		<-r.Context().Done() // the bridge hangs up as well
	})
	w := newWorld(t, allowPrivate)
	w.atEndpoint("boiler", heating, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := w.InvokeSkill(ctx, callOf(alice), InvokeSkillParams{SkillID: "heating", CapabilityID: "bleed"})
		ended <- err
	}()
	call := <-asked
	cancel()
	if err := <-ended; protocol.CodeOf(err) != protocol.Cancelled {
		t.Error(err)
	}
	if stop := <-told; !strings.Contains(string(stop.Params), call.ID) {
		t.Errorf("told %s", stop.Params)
	}
}

func TestAStandingCallIsAskedForAtAnEndpoint(t *testing.T) {
	t.Parallel()
	server := serve(t, func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) {
		if q.Command != "task.get" {
			t.Errorf("asked %s", q.Command)
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(rw, "data: {\"id\":\"task-0\",\"type\":\"response\",\"status\":\"success\",\"result\":{\"on\":true}}\n\n")
		fmt.Fprintf(rw, "data: {\"id\":%q,\"type\":\"response\",\"status\":\"success\",\"result\":{\"state\":\"done\"}}\n\n", q.ID)
	})
	w := newWorld(t, allowPrivate)
	w.atEndpoint("d", tool, server.URL)
	h := make(heard, 8)
	c := durable(h)
	w.asking.Expect(c)
	w.asking.Recall(c)
	h.expect(t, `answered {"on":true}`)
	w.awaitNoExchanges(t)
}

func TestAnAgentAtAnEndpointIsOnlineWhileItSendsHeartbeats(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		w.atEndpoint("boiler", heating, "https://boiler.example/")
		status := func() Status {
			var v AgentView
			w.do(alice, "agent.get", `{"agent_id":"boiler"}`, &v)
			return v.Status
		}
		time.Sleep(time.Minute)
		w.do(alice, "agent.heartbeat", `{"agent_id":"boiler"}`, nil)
		time.Sleep(time.Minute)
		if status() != Online {
			t.Error("it is offline with heartbeats")
		}
		time.Sleep(2 * time.Minute)
		if status() != Offline {
			t.Error("it is online without heartbeats")
		}
		if err := w.fails(alice, "skill.invoke", bleed, protocol.AgentOffline); !strings.Contains(fmt.Sprint(err.Details["reason"]), "heartbeat") {
			t.Errorf("the caller is told %v", err.Details)
		}
	})
}

func TestEndpointsThatMayNotBeCalledAreWarnedOf(t *testing.T) {
	t.Parallel()
	const register = `{"agent_id":"a","type":"end_agent","endpoints":[%q],"skills":[{"skill_id":"s","name":"S","endpoints":[%q],"capabilities":["c"]}]}`
	for url, hint := range map[string]string{
		"http://127.0.0.1:8080/":         "allow_private",
		"http://lamp.localhost/":         "allow_private",
		"https://192.168.1.20/":          "allow_private",
		"http://[fd12:3456::1]/":         "allow_private",
		"http://169.254.169.254/latest/": "no setting",
		"http://93.184.216.34/":          "",
		"https://lamp.example/":          "",
		"mqtt://192.168.1.20:1883":       "",
	} {
		for _, o := range []struct {
			options []func(*Options)
			warned  bool
		}{
			{nil, hint != ""},
			{[]func(*Options){allowPrivate}, hint == "no setting"},
		} {
			w := newWorld(t, o.options...)
			r := w.ask(question{who: alice, command: "agent.register", params: fmt.Sprintf(register, url, url)})
			var got RegisterAgentResult
			w.must(r, &got)
			warnings := strings.Join(r.Metadata.Warnings, "\n")
			of := strings.Contains(warnings, "endpoints[0]: ") && strings.Contains(warnings, "skills[0].endpoints[0]: ") && strings.Contains(warnings, hint)
			if of != o.warned {
				t.Errorf("%s with %d options: warned %q", url, len(o.options), warnings)
			}
			if online := !o.warned && strings.HasPrefix(url, "http"); (got.Status == Online) != online {
				t.Errorf("%s with %d options: it is %s", url, len(o.options), got.Status)
			}
			r = w.ask(question{who: alice, command: "skill.register", params: fmt.Sprintf(`{"skill":{"skill_id":"t","name":"T","endpoints":[%q],"capabilities":["c"]}}`, url)})
			w.must(r, nil)
			if warned := strings.Contains(strings.Join(r.Metadata.Warnings, "\n"), "skill.endpoints[0]: "); warned != o.warned {
				t.Errorf("%s of a skill: warned %q", url, r.Metadata.Warnings)
			}
		}
	}
}
