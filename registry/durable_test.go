package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// heard is the news of the listener of a durable invocation.
type heard chan string

// Hear implements [ask.Listener].
func (h heard) Hear(n ask.Notice) {
	switch n.Kind {
	case ask.Answered:
		h <- "answered " + string(n.Data)
	case ask.Failed:
		h <- "failed " + string(n.Err.Code)
	case ask.Rejected:
		h <- "rejected " + string(n.Err.Code)
	case ask.Accepted:
		h <- "accepted"
	case ask.Progressed:
		h <- "progressed " + string(n.Data)
	case ask.Left:
		h <- "left"
	case ask.Mute:
		h <- "mute"
	case ask.Forgotten:
		if n.Since.IsZero() {
			h <- "forgotten"
			return
		}
		h <- fmt.Sprintf("forgotten since %v", time.Since(n.Since).Round(time.Second))
	}
}

func (h heard) expect(t testing.TB, want string) {
	t.Helper()
	select {
	case got := <-h:
		if got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
	case <-time.After(eventually.Patience):
		t.Fatalf("nothing is heard, want %s", want)
	}
}

const tool = `{"skill_id":"tool","name":"Tool","capabilities":["do",{"capability_id":"safe","idempotent":true,"params_schema":{"required":["n"]}},` +
	`{"capability_id":"look","effect":"read"},{"capability_id":"press","effect":"act"}]}`

func durable(h heard) *ask.Durable {
	return &ask.Durable{ID: "task-0", Space: protocol.DefaultSpace, Skill: "tool", Agent: "d", Capability: "do",
		Params: json.RawMessage(`{"n":1}`), TraceID: "t", Deadline: time.Now().Add(time.Minute), Listener: h}
}

func TestADurableInvocationOutlivesTheAgentsConnection(t *testing.T) {
	w := newWorld(t)
	device := w.device("d", tool, nil)
	h := make(heard, 8)
	c := durable(h)
	w.asking.AskDurably(c)
	call := waitFor(t, device, 1)
	if call.ID != c.ID || call.Command != "skill.invoke" || !strings.Contains(string(call.Params), `"params":{"n":1}`) || call.Metadata.TraceID != "t" {
		t.Errorf("the device is asked %+v", call)
	}
	device.tell(call, "task.accepted", `{}`)
	h.expect(t, "accepted")
	device.tell(call, "task.progress", `{"percent":1}`)
	h.expect(t, `progressed {"percent":1}`)
	device.die()
	h.expect(t, "left")
	w.asking.Recall(c)
	h.expect(t, "left") // there is nobody to recall from
	w.Connected(device, device.client, alice)
	device.listen()
	if !w.Reachable(protocol.DefaultSpace, "d") {
		t.Error("the device is back and cannot be reached")
	}
	device.succeed(call, `{"late":true}`)
	h.expect(t, `answered {"late":true}`)
	device.succeed(call, `{"again":true}`)
	if w.dropped("unknown") != 1 || len(h) != 0 || w.asking.Open() != 0 {
		t.Errorf("a second answer: dropped %v, heard %d, open %d", w.dropped("unknown"), len(h), w.asking.Open())
	}
}

// waitFor returns the nth request a device gets.
func waitFor(t testing.TB, d *device, n int) *protocol.Request {
	t.Helper()
	for deadline := time.Now().Add(eventually.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if got := d.got(); len(got) >= n {
			return got[n-1]
		}
	}
	t.Fatalf("the device gets fewer than %d requests", n)
	return nil
}

func (w *world) awaitNoExchanges(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(eventually.Patience); w.asking.Open() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d exchanges are left open", w.asking.Open())
		}
	}
}

func TestWhatAgentsSayAboutACallThatWasLost(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(d *device, r *protocol.Request)
		want   string
	}{
		"the answer": {func(d *device, r *protocol.Request) {
			d.say(`{"version":"0.6.3","id":"task-0","type":"response","status":"success","result":{"on":true}}`)
			d.succeed(r, `{"state":"done"}`)
		}, `answered {"on":true}`},
		"at work":             {func(d *device, r *protocol.Request) { d.succeed(r, `{"state":"running"}`) }, "accepted"},
		"no such call":        {func(d *device, r *protocol.Request) { d.fail(r, "3001", "what?") }, "forgotten"},
		"an unknown command":  {func(d *device, r *protocol.Request) { d.fail(r, "1002", "what?") }, "mute"},
		"the same to anybody": {func(d *device, r *protocol.Request) { d.succeed(r, `{"light":"on"}`) }, "mute"},
		"no such call, listening for an hour": {func(d *device, r *protocol.Request) {
			d.say(fmt.Sprintf(`{"version":"0.6.3","id":%q,"type":"response","status":"failed","error":{"code":"3001","message":"no","details":{"listening_ms":3600000}}}`, r.ID))
		}, "forgotten since 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			device := w.device("d", tool, test.answer)
			h := make(heard, 8)
			c := durable(h)
			w.asking.Expect(c)
			w.asking.Recall(c)
			h.expect(t, test.want)
			if r := device.got()[0]; r.Command != "task.get" || string(r.Params) != `{"task_id":"task-0"}` || r.ID == c.ID {
				t.Errorf("the device is asked %+v", r)
			}
			w.asking.Drop(c.ID)
			w.awaitNoExchanges(t) // the device may still be telling what became of the question
		})
	}
}

func TestACancelledInvocationIsHeardOfNoMore(t *testing.T) {
	w := newWorld(t)
	device := w.device("d", tool, nil)
	h := make(heard, 8)
	c := durable(h)
	w.asking.AskDurably(c)
	call := waitFor(t, device, 1)
	w.asking.CancelDurable(c, "changed my mind")
	if told := waitFor(t, device, 2); told.Command != "task.cancel" || !strings.Contains(string(told.Params), `"task-0"`) {
		t.Errorf("the device is told %+v", told)
	}
	device.succeed(call, `{}`)
	if len(h) != 0 {
		t.Errorf("heard %s", <-h)
	}
}

func TestAnInvocationIsCheckedBeforeItIsSent(t *testing.T) {
	w := newWorld(t)
	w.device("d", tool, nil)
	for _, test := range []struct {
		skill      protocol.SkillID
		capability protocol.CapabilityID
		params     string
		idempotent bool
		code       protocol.Code
	}{
		{"tool", "do", `{}`, false, ""},
		{"tool", "safe", `{"n":1}`, true, ""},
		{"tool", "safe", `{}`, true, protocol.InvalidParameter},
		{"tool", "look", `{}`, true, ""},
		{"tool", "press", `{}`, false, ""},
		{"tool", "else", `{}`, false, protocol.NotFound},
		{"none", "do", `{}`, false, protocol.NotFound},
	} {
		idempotent, err := w.Prepare(protocol.DefaultSpace, test.skill, test.capability, json.RawMessage(test.params))
		if idempotent != test.idempotent || protocol.CodeOf(err) != test.code {
			t.Errorf("%s of %s with %s: %v, %v", test.capability, test.skill, test.params, idempotent, err)
		}
	}
	if agent, ok := w.Choose(protocol.DefaultSpace, "tool"); agent != "d" || !ok {
		t.Errorf("chosen %q, %v", agent, ok)
	}
	if _, ok := w.Choose("lab", "tool"); ok {
		t.Error("a skill of another space is chosen")
	}
}

func TestADurableInvocationReachesASkillOverHTTP(t *testing.T) {
	server := serve(t, func(rw http.ResponseWriter, _ *http.Request, q *protocol.Request) { success(rw, q, `{"litres":2}`) })
	w := newWorld(t, allowPrivate)
	w.do(alice, "skill.register", fmt.Sprintf(`{"skill":{"skill_id":"tool","name":"Tool","endpoints":[%q],"capabilities":["do"]}}`, server.URL), nil)
	if agent, ok := w.Choose(protocol.DefaultSpace, "tool"); agent != "" || !ok {
		t.Errorf("chosen %q, %v", agent, ok)
	}
	h := make(heard, 8)
	c := durable(h)
	c.Agent = ""
	w.asking.AskDurably(c)
	h.expect(t, `answered {"litres":2}`)
}
