package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A socketAgent is an agent without MQTT, over /ws.
type socketAgent struct {
	conn *websocket.Conn
}

func dialAgent(t *testing.T, n *bridgetest.Node) *socketAgent {
	t.Helper()
	return dialAgentAs(t, n, http.Header{})
}

func dialAgentAs(t *testing.T, n *bridgetest.Node, header http.Header) *socketAgent {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://"+n.WS+"/ws", &websocket.DialOptions{HTTPClient: bridgetest.HTTPClient(t), HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &socketAgent{conn}
}

func (a *socketAgent) send(t *testing.T, message string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	if err := a.conn.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
}

func (a *socketAgent) next(t *testing.T) protocol.Envelope {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	_, data, err := a.conn.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := protocol.DecodeEnvelope(data, protocol.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return m
}

// register registers an agent with a skill of the same name.
func (a *socketAgent) register(t *testing.T, id string) {
	t.Helper()
	a.send(t, bridgetest.Request(protocol.NewID(), "agent.register", agentWithSkill(id, "")))
	if m := a.next(t); m.Response == nil || m.Response.Err != nil {
		t.Fatalf("not registered: %+v", m)
	}
}

func agentWithSkill(id, endpoints string) string {
	return fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"%s,"skills":[{"skill_id":%q,"name":"Lamp","capabilities":["switch"]}]}`, id, endpoints, id)
}

// invocation is the request that comes next.
func (a *socketAgent) invocation(t *testing.T) *protocol.Request {
	t.Helper()
	m := a.next(t)
	if m.Request == nil || m.Request.Command != "skill.invoke" {
		t.Fatalf("it is asked %+v", m)
	}
	return m.Request
}

func (a *socketAgent) succeed(t *testing.T, id string) {
	t.Helper()
	a.send(t, fmt.Sprintf(`{"version":"0.6.3","id":%q,"type":"response","status":"success","result":{"by":"socket"}}`, id))
}

func allowPrivate(c *app.Config) { c.Skills.AllowPrivate = true }

func TestAgentsWithoutMQTTAreAskedLikeOthers(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, allowPrivate)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		q, err := protocol.DecodeRequest(body, protocol.Limits{})
		if err != nil {
			t.Errorf("the endpoint gets %s: %v", body, err)
		}
		fmt.Fprintf(w, `{"id":%q,"status":"success","result":{"by":"endpoint"}}`, q.ID)
	}))
	t.Cleanup(server.Close)
	socket := dialAgent(t, n)
	socket.register(t, "socket")
	caller := n.Caller(t, "caller")
	must(t, caller, "agent.register", agentWithSkill("mqtt-only", "")) // over MQTT, and nobody listens
	if status, body := post(t, n.HTTPURL("/api/v1/commands/agent.register"), agentWithSkill("web", `,"endpoints":["`+server.URL+`"]`)); status != http.StatusOK {
		t.Fatalf("%d: %s", status, body)
	}
	for agent, want := range map[string]string{"socket": "online", "web": "online", "mqtt-only": "offline"} {
		var got struct {
			Status string `json:"status"`
		}
		if err := json.Unmarshal(must(t, caller, "agent.get", fmt.Sprintf(`{"agent_id":%q}`, agent)), &got); err != nil || got.Status != want {
			t.Errorf("%s is %s, want %s; %v", agent, got.Status, want, err)
		}
	}

	caller.Send(t, "aibridge/bridge/request", bridgetest.Request("one", "skill.invoke", `{"skill_id":"socket","capability_id":"switch"}`))
	socket.succeed(t, socket.invocation(t).ID)
	if answer := caller.Answer(t); answer.Err != nil || answer.ID != "one" {
		t.Errorf("over /ws: %+v %v", answer, answer.Err)
	}
	must(t, caller, "skill.invoke", `{"skill_id":"web","capability_id":"switch"}`)

	home(t, caller, "socket", "web")
	id := dispatched(t, caller, "")
	socket.succeed(t, socket.invocation(t).ID)
	becomes(t, caller, id, "complete: ok ok")
}

func TestADispatchFindsAnAgentThatComesBackOverAnotherWebSocket(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	caller := n.Caller(t, "caller")
	first := dialAgent(t, n)
	first.register(t, "socket")
	home(t, caller, "socket")
	id := dispatched(t, caller, "")
	call := first.invocation(t)
	_ = first.conn.CloseNow()

	next := dialAgent(t, n)
	next.register(t, "socket")
	m := next.next(t)
	if m.Request == nil || m.Request.Command != "task.get" {
		t.Fatalf("it is asked %+v", m)
	}
	next.succeed(t, call.ID)
	next.send(t, fmt.Sprintf(`{"id":%q,"status":"success","result":{"state":"done"}}`, m.Request.ID))
	becomes(t, caller, id, "complete: ok")
}

func TestABridgeThatStopsWaitsForAgentsOnWebSockets(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, func(c *app.Config) { c.Drain = 300 })
	agent := dialAgent(t, n)
	agent.register(t, "socket")
	caller := n.Caller(t, "caller")
	caller.Send(t, "aibridge/bridge/request", bridgetest.Request("last", "skill.invoke", `{"skill_id":"socket","capability_id":"switch"}`))
	call := agent.invocation(t)
	stopped := make(chan struct{})
	go func() { n.Stop(t); close(stopped) }()
	for refused := false; !refused; { // its own requests are refused once the bridge stops, its answers are not
		agent.send(t, bridgetest.Request(protocol.NewID(), "agent.list", `{}`))
		m := agent.next(t)
		refused = m.Response != nil && m.Response.Err != nil && m.Response.Err.Code == protocol.ShuttingDown
	}
	agent.succeed(t, call.ID)
	if answer := caller.Answer(t); answer.Err != nil {
		t.Errorf("the last call: %v", answer.Err)
	}
	<-stopped
}

// TestAnAgentOverAWebSocketEndsWithItsCredential has an agent called over /ws,
// with the mark of its caller as over MQTT, until its key is revoked.
func TestAnAgentOverAWebSocketEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var key struct {
		ID  string `json:"key_id"`
		Key string `json:"key"`
	}
	if err := json.Unmarshal([]byte(h.must("key.create", `{"principal_id":"lamp","kind":"agent","roles":["end_agent"]}`)), &key); err != nil {
		t.Fatal(err)
	}
	lamp := dialAgentAs(t, h.Node, http.Header{"X-Api-Key": {key.Key}})
	lamp.register(t, "lamp")
	const invoke = `{"skill_id":"lamp","capability_id":"switch"}`
	marks := make(map[string]bool)
	for i, caller := range []string{"olga", "otto", "olga"} {
		r := h.connect(caller+fmt.Sprint(i), h.key(protocol.KindOperator, caller, protocol.RoleOperator))
		r.Send(t, "aibridge/bridge/request", bridgetest.Request(fmt.Sprint("call", i), "skill.invoke", invoke))
		mark, id := lamp.callerOf(t)
		if mark == "" || mark == caller {
			t.Errorf("the call of %s is marked %q", caller, mark)
		}
		marks[mark] = true
		lamp.succeed(t, id)
		if got := r.Answer(t); got.Err != nil {
			t.Fatal(got.Err)
		}
	}
	if len(marks) != 2 {
		t.Errorf("two callers have the marks %v", marks)
	}

	h.must("key.revoke", fmt.Sprintf(`{"key_id":%q}`, key.ID))
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	if _, data, err := lamp.conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("after the revocation it gets %s, %v", data, err)
	}
	eventually.Holds(t, "the agent is offline", func() bool { return strings.Contains(h.must("agent.get", `{"agent_id":"lamp"}`), `"offline"`) })
	if code, body := h.run(h.admin, "skill.invoke", invoke); code != protocol.AgentOffline {
		t.Errorf("a call afterwards: %s %s", code, body)
	}
}

// callerOf is the mark and the id of the invocation that comes next.
func (a *socketAgent) callerOf(t *testing.T) (mark, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	_, data, err := a.conn.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		ID, Command string
		Metadata    struct{ Caller string }
	}
	if err := json.Unmarshal(data, &r); err != nil || r.Command != "skill.invoke" {
		t.Fatalf("it is asked %s, %v", data, err)
	}
	return r.Metadata.Caller, r.ID
}
