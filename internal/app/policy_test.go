package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A house is a bridge that lets nobody in without a key.
type house struct {
	*bridgetest.Node
	t     *testing.T
	admin string
	n     int
}

func newHouse(t *testing.T, change ...func(*app.Config)) *house {
	t.Helper()
	return newHouseWith(t, nil, change...)
}

func newHouseWith(t *testing.T, options []app.Option, change ...func(*app.Config)) *house {
	t.Helper()
	h := &house{t: t}
	h.Node = bridgetest.StartWith(t, options, append(change, func(c *app.Config) { c.Dev = false })...)
	data, err := os.ReadFile(filepath.Join(h.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	h.admin = strings.TrimSpace(string(data))
	return h
}

// run has somebody run a command over HTTP and returns the code, "" for
// success, and what was answered.
func (h *house) run(key, command, params string) (protocol.Code, string) {
	h.t.Helper()
	status, body := post(h.t, h.HTTPURL("/api/v1/commands/"+command), params, "X-API-Key", key)
	if status == http.StatusOK {
		return "", string(body)
	}
	var failure struct {
		Error struct {
			Code protocol.Code `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &failure); err != nil || failure.Error.Code == "" {
		h.t.Fatalf("%s: %v: %s", command, err, body)
	}
	return failure.Error.Code, string(body)
}

// must runs a command as the administrator.
func (h *house) must(command, params string) string {
	h.t.Helper()
	code, body := h.run(h.admin, command, params)
	if code != "" {
		h.t.Fatalf("%s %s: %s", command, params, body)
	}
	return body
}

// key makes a key for somebody.
func (h *house) key(kind protocol.Kind, id, role string, more ...string) string {
	h.t.Helper()
	body := h.must("key.create", fmt.Sprintf(`{"principal_id":%q,"kind":%q,"roles":[%q]%s}`, id, kind, role, strings.Join(more, "")))
	var made struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal([]byte(body), &made); err != nil || made.Key == "" {
		h.t.Fatalf("key.create: %v: %s", err, body)
	}
	return made.Key
}

func (h *house) connect(id, key string) *bridgetest.Raw {
	h.t.Helper()
	return h.Caller(h.t, id, withPassword("apikey", key))
}

func (h *house) ask(r *bridgetest.Raw, command, params string) *protocol.Response {
	h.t.Helper()
	h.n++
	return r.Ask(h.t, bridgetest.Request(fmt.Sprint("q", h.n), command, params))
}

func subscribe(t *testing.T, r *bridgetest.Raw, filter string) byte {
	t.Helper()
	ack, err := r.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}})
	if ack == nil {
		t.Fatalf("subscribe to %s: %v", filter, err)
	}
	return ack.Reasons[0]
}

func TestRolesDoTheirWorkAndNoMore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	lamp := h.connect("lamp-client", h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent))
	for _, q := range []struct{ command, params string }{
		{"agent.register", `{"agent_id":"lamp","type":"end_agent"}`},
		{"skill.register", `{"agent_id":"lamp","skill":{"skill_id":"light","name":"Light","description":"Shines","version":"1.0.0","type":"custom","capabilities":["on"]}}`},
		{"agent.heartbeat", `{"agent_id":"lamp"}`},
		{"skill.discover", `{}`},
	} {
		if a := h.ask(lamp, q.command, q.params); a.Err != nil {
			t.Fatalf("an end agent runs %s: %v", q.command, a.Err)
		}
	}
	lamp.Listen(t, "aibridge/agent/lamp/request")
	for command, params := range map[string]string{
		"agent.register": `{"agent_id":"other","type":"end_agent"}`,
		"skill.invoke":   `{"skill_id":"light","capability_id":"on"}`,
		"key.create":     `{"principal_id":"x"}`,
		"policy.put":     `{"name":"x","policy":"permit (principal, action, resource);"}`,
		"session.list":   `{}`,
	} {
		if a := h.ask(lamp, command, params); protocol.CodeOf(errorOf(a)) != protocol.PermissionDenied {
			t.Errorf("an end agent runs %s: %v", command, a.Err)
		}
	}

	router := h.connect("router-client", h.key(protocol.KindAgent, "router", protocol.RoleRouteAgent))
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		lamp.Reply(t, "lamp", lamp.Invocation(t), map[string]bool{"on": true})
	}()
	if a := h.ask(router, "skill.invoke", `{"skill_id":"light","capability_id":"on"}`); a.Err != nil {
		t.Errorf("a RouteAgent calls a skill: %v", a.Err)
	}
	<-answered

	observer := h.key(protocol.KindOperator, "otto", protocol.RoleObserver)
	operator := h.key(protocol.KindOperator, "olga", protocol.RoleOperator)
	for _, test := range []struct {
		who, key, command, params string
		want                      protocol.Code
	}{
		{"observer", observer, "agent.list", `{}`, ""},
		{"observer", observer, "agent.unregister", `{"agent_id":"lamp"}`, protocol.PermissionDenied},
		{"observer", observer, "key.list", `{}`, protocol.PermissionDenied},
		{"operator", operator, "key.list", `{}`, protocol.PermissionDenied},
		{"operator", operator, "policy.list", `{}`, protocol.PermissionDenied},
		{"operator", operator, "skill.unregister", `{"skill_id":"light"}`, ""},
		{"operator", operator, "agent.unregister", `{"agent_id":"lamp"}`, ""},
	} {
		if code, body := h.run(test.key, test.command, test.params); code != test.want {
			t.Errorf("an %s runs %s: %s", test.who, test.command, body)
		}
	}
}

func TestWhatIsInAnotherSpaceDoesNotExist(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	acme := h.key(protocol.KindOperator, "ann", protocol.RoleOperator, `,"space_id":"acme"`)
	home := h.key(protocol.KindOperator, "olga", protocol.RoleOperator)
	if code, body := h.run(acme, "resource.register", `{"resource":{"resource_id":"room","name":"Room","type":"room"}}`); code != "" {
		t.Fatal(body)
	}
	for command, params := range map[string]string{
		"resource.get":   `{"resource_id":"room"}`,
		"resource.list":  `{"space_id":"acme"}`,
		"agent.list":     `{"space_id":"nowhere"}`,
		"skill.discover": `{"space_id":"acme"}`,
	} {
		if code, body := h.run(home, command, params); code != protocol.NotFound {
			t.Errorf("%s %s: %s", command, params, body)
		}
	}
	if code, body := h.run(acme, "resource.get", `{"resource_id":"room"}`); code != "" {
		t.Errorf("its own space: %s", body)
	}
	h.must("resource.list", `{"space_id":"acme"}`)
}

func TestNobodySpeaksForOthers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	gateway := h.connect("gateway-client", h.key(protocol.KindOperator, "gateway", protocol.RoleOperator))
	if a := h.ask(gateway, "agent.register", `{"agent_id":"bulb","type":"end_agent"}`); a.Err != nil {
		t.Fatal(a.Err)
	}
	as := func(sender string) *protocol.Response {
		h.n++
		return gateway.Ask(t, fmt.Sprintf(`{"version":"0.6.3","id":"s%d","timestamp":0,"type":"request","command":"agent.list","params":{},"metadata":{"sender_id":%q}}`, h.n, sender))
	}
	if a := as("bulb"); a.Err != nil {
		t.Errorf("for an agent that it registered: %v", a.Err)
	}
	if a := as("root"); protocol.CodeOf(errorOf(a)) != protocol.PermissionDenied {
		t.Errorf("for somebody else: %v", a.Err)
	}
}

func TestPoliciesBiteAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	lamp := h.connect("lamp-client", key)
	for _, filter := range []string{"home/#", "aibridge/agent/lamp/request"} {
		if code := subscribe(t, lamp, filter); code != 1 {
			t.Fatalf("%s: SUBACK %#x", filter, code)
		}
	}
	other := h.connect("admin-client", h.admin)
	other.Send(t, "home/kitchen", "before")
	if got := lamp.Next(t); string(got.Payload) != "before" {
		t.Fatalf("got %s", got.Payload)
	}
	h.must("policy.put", `{"name":"quarantine","policy":"@why(\"it misbehaves\") forbid (principal == Agent::\"lamp\", action, resource);"}`)
	if code, body := h.run(key, "skill.discover", `{}`); code != protocol.PermissionDenied {
		t.Errorf("a command: %s", body)
	}
	if answer, err := lamp.Publish(t.Context(), &paho.Publish{Topic: "home/kitchen", QoS: 1, Payload: []byte("x")}); err == nil || answer.ReasonCode != 0x87 {
		t.Errorf("a publish: %+v, %v", answer, err)
	}
	if code := subscribe(t, lamp, "home/#"); code != 0x87 {
		t.Errorf("a subscription: %#x", code)
	}
	eventually.Holds(t, "its subscriptions end", func() bool {
		return strings.Contains(h.must("session.get", `{"client_id":"lamp-client"}`), `"subscriptions":0`)
	})
	why := h.must("policy.explain", `{"principal":{"id":"lamp"},"action":"skill:discover"}`)
	if !strings.Contains(why, `"decision":"deny"`) || !strings.Contains(why, "it misbehaves") {
		t.Errorf("explain: %s", why)
	}
	h.must("policy.remove", `{"name":"quarantine"}`)
	if code := subscribe(t, lamp, "home/#"); code != 1 {
		t.Errorf("after the quarantine: %#x", code)
	}
}

// TestAnExclusiveSubscriptionIsJudgedAsItsTopic keeps one while its client may hear the
// topic, and when it comes back, and not a moment longer.
func TestAnExclusiveSubscriptionIsJudgedAsItsTopic(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	back := func() *bridgetest.Raw { return h.Connect(t, "lamp-client", withPassword("apikey", key), kept) }
	lamp, other := back(), h.connect("admin-client", h.admin)
	if code := subscribe(t, lamp, "$exclusive/home/door"); code != 1 {
		t.Fatalf("SUBACK %#x", code)
	}
	for _, text := range []string{"open", "shut"} {
		other.Send(t, "home/door", text)
		isTold(t, lamp, "home/door", text)
		lamp.Send(t, "home/heard", "") // behind the acknowledgement of what it was told
		lamp.Drop()
		lamp = back()
	}
	h.must("policy.put", `{"name":"quarantine","policy":"forbid (principal == Agent::\"lamp\", action, resource);"}`)
	eventually.Holds(t, "its subscription ends", func() bool {
		return strings.Contains(h.must("session.get", `{"client_id":"lamp-client"}`), `"subscriptions":0`)
	})
}

func TestStoredPoliciesSurviveARestart(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	otto := h.key(protocol.KindOperator, "otto", protocol.RoleObserver)
	h.must("policy.put", `{"name":"blind","policy":"forbid (principal in Role::\"observer\", action == Action::\"agent:list\", resource);"}`)
	h.Restart(t)
	if code, body := h.run(otto, "agent.list", `{}`); code != protocol.PermissionDenied {
		t.Errorf("got %s", body)
	}
}

func TestPolicyFilesAreFollowedAndBrokenOnesDoNoHarm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "otto.cedar")
	write := func(text string) { bridgetest.Write(t, path, text) }
	write(`forbid (principal == Operator::"otto", action == Action::"agent:list", resource);`)
	h := newHouse(t, func(c *app.Config) { c.Security.Policies = dir })
	otto := h.key(protocol.KindOperator, "otto", protocol.RoleObserver)
	if code, _ := h.run(otto, "agent.list", `{}`); code != protocol.PermissionDenied {
		t.Fatal("the file is not in force")
	}
	write(`forbid (principal == Operator::"otto", action == Action::"agent:lst", resource);`)
	eventually.Holds(t, "the broken file is reported", func() bool {
		return strings.Contains(h.must("policy.list", `{"from":"file"}`), "did you mean")
	})
	if code, _ := h.run(otto, "agent.list", `{}`); code != protocol.PermissionDenied {
		t.Error("a broken file replaced a working one")
	}
	write(`forbid (principal == Operator::"otto", action == Action::"skill:discover", resource);`)
	eventually.Holds(t, "a mended file is followed", func() bool {
		code, _ := h.run(otto, "agent.list", `{}`)
		return code == ""
	})
}

// TestADispatchReachesWhomTheCallerMayInvoke has policy look at everything
// that it may look at for skill.invoke.
func TestADispatchReachesWhomTheCallerMayInvoke(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	olga := h.connect("olga", h.key(protocol.KindOperator, "olga", protocol.RoleOperator))
	lamps := h.connect("lamps", h.key(protocol.KindAgent, "lamps", protocol.RoleEndAgent))
	ask := func(who *bridgetest.Raw, command, params string) json.RawMessage {
		t.Helper()
		a := h.ask(who, command, params)
		if a.Err != nil {
			t.Fatalf("%s %s: %v", command, params, a.Err)
		}
		return a.Result
	}
	ask(olga, "cap.declare", `{"cap_id":"home","cap_name":"Home","skill_id":"owner"}`)
	ask(lamps, "agent.register", `{"agent_id":"lamps","type":"end_agent"}`)
	for _, lamp := range []string{"free", "forbidden", "indoors", "spoken"} {
		ask(lamps, "skill.register", fmt.Sprintf(`{"agent_id":"lamps","skill":{"skill_id":%q,"name":"Lamp","description":"Shines","version":"1.0.0","type":"custom","capabilities":["on"]}}`, lamp))
		ask(olga, "group.member.add", fmt.Sprintf(`{"cap_id":"home","group_id":"all","skill_id":%q,"role":"lamp"}`, lamp))
	}
	lamps.Listen(t, "aibridge/agent/lamps/request")
	for skill, when := range map[string]string{
		"forbidden": `true`,
		"indoors":   `context.door == "mqtt"`,
		"spoken":    `context.sender_id == "olga"`,
	} {
		h.must("policy.put", fmt.Sprintf(`{"name":%q,"policy":%q}`, skill,
			fmt.Sprintf(`forbid (principal, action == Action::"skill:invoke", resource == Skill::%q) when { %s };`, skill, when)))
		if a := h.ask(olga, "skill.invoke", fmt.Sprintf(`{"skill_id":%q,"capability_id":"on"}`, skill)); protocol.CodeOf(errorOf(a)) != protocol.PermissionDenied {
			t.Fatalf("skill.invoke of %s: %v", skill, a.Err)
		}
	}

	var started groupTask
	if err := json.Unmarshal(ask(olga, "group.dispatch", `{"cap_id":"home","group_id":"all","capability_id":"on"}`), &started); err != nil {
		t.Fatal(err)
	}
	call := lamps.Invocation(t)
	if !strings.Contains(string(call.Params), `"free"`) {
		t.Errorf("asked: %s", call.Params)
	}
	lamps.Reply(t, "lamps", call, map[string]bool{"on": true})
	done := becomes(t, olga, started.ID, "partial: ok denied denied denied")
	for _, m := range done.Group.Members[1:] {
		if m.Error.Code != protocol.PermissionDenied {
			t.Errorf("%s: %+v", m.Skill, m)
		}
	}
	if code, body := h.run(h.admin, "skill.invoke", `{"skill_id":"indoors","capability_id":"none"}`); code != protocol.NotFound {
		t.Errorf("by another door: %s", body)
	}
}

func TestAPolicyOpensTopicsThatBeginWithADollar(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	lamp, fan := h.key(protocol.KindAgent, "lamp", "end_agent"), h.key(protocol.KindAgent, "fan", "end_agent")
	server, client := h.connect("lamp", lamp), h.connect("fan", fan)
	subscribe := func(filter string) bool {
		_, err := client.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}})
		return err == nil
	}
	publish := func(topic string) bool {
		r, err := server.Publish(t.Context(), &paho.Publish{Topic: topic, QoS: 1, Payload: []byte("here")})
		return err == nil && r.ReasonCode < 0x80
	}
	if subscribe("$mcp-server/+/presence") || publish("$mcp-server/lamp/presence") {
		t.Fatal("topics that begin with $ are open to everybody")
	}
	h.must("policy.put", `{"name":"mcp","policy":"permit (principal, action in Action::\"topic\", resource) when { resource has kind && resource.kind == \"dollar\" && resource.id like \"$mcp-*\" };"}`)
	eventually.Holds(t, "the policy counts", func() bool { return subscribe("$mcp-server/+/presence") })
	if !publish("$mcp-server/lamp/presence") {
		t.Error("lamp may not publish")
	}
	if m := client.Next(t); m.Topic != "$mcp-server/lamp/presence" {
		t.Errorf("fan heard %s", m.Topic)
	}
	for _, filter := range []string{"$a2a/v1/x", "$SYS/#"} {
		if subscribe(filter) {
			t.Errorf("%s is open", filter)
		}
	}
	for _, topic := range []string{"$SYS/broker/version", "$share/g/x", "$a2a/v1/x"} {
		if publish(topic) {
			t.Errorf("%s is open", topic)
		}
	}
}
