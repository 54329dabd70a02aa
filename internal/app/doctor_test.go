package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
	"github.com/golang-jwt/jwt/v5"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/doctor"
	"github.com/aibridge/aibridge/security/token"
)

// examine asks the doctor about an agent.
func (h *house) examine(key, params string) doctor.Result {
	h.t.Helper()
	code, body := h.run(key, "agent.doctor", params)
	var r doctor.Result
	if err := json.Unmarshal([]byte(body), &r); code != "" || err != nil {
		h.t.Fatalf("agent.doctor %s: %v: %s", params, err, body)
	}
	return r
}

// finds waits until the first finding about an agent is of a kind, or speaks of
// something.
func (h *house) finds(key, agent, want string) {
	h.t.Helper()
	var last doctor.Result
	var told string
	eventually.Holds(h.t, "the doctor names "+want+" first", func() bool {
		code, body := h.run(key, "agent.doctor", fmt.Sprintf(`{"agent_id":%q}`, agent))
		told, last = body, doctor.Result{}
		if code != "" || json.Unmarshal([]byte(body), &last) != nil || len(last.Findings) == 0 {
			return false
		}
		first := last.Findings[0]
		return !last.Healthy && first.Do != "" && (string(first.Kind) == want || strings.Contains(first.What, want))
	}, &told)
}

const switchable = `[{"capability_id":"on","result_schema":{"type":"object","required":["lit"],"properties":{"lit":{"type":"boolean"}}}}]`

func TestNothingIsWrongWithADeviceThatWorks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	lamp := h.Device(t, "lamp", "light", switchable, withPassword("apikey", key))
	if answer := h.ask(lamp, "agent.heartbeat", `{"agent_id":"lamp"}`); answer.Err != nil {
		t.Fatal(answer.Err)
	}
	operator := h.key(protocol.KindOperator, "olga", protocol.RoleOperator)
	for name, who := range map[string]string{"administrator": h.admin, "operator": operator, "the device itself": key} {
		r := h.examine(who, `{"agent_id":"lamp"}`)
		if !r.Healthy || r.Summary != "nothing is wrong" || len(r.Findings) > 0 {
			t.Errorf("to %s: %+v", name, r)
		}
		for _, c := range r.Checks {
			if c.State != doctor.OK && (c.Check != "clock" || c.State != doctor.Unknown) { // it sends timestamp 0
				t.Errorf("to %s: %s is %s: %s", name, c.Check, c.State, c.What)
			}
		}
	}
}

// seeded are devices of which each does one thing wrong. The doctor names it
// first.
var seeded = map[string]struct {
	seed func(t *testing.T, h *house, id, key string)
	want string
}{
	"no credential": {func(t *testing.T, h *house, id, _ string) { h.refused(t, id) }, "connect.anonymous"},
	"a wrong secret": {func(t *testing.T, h *house, id, key string) {
		h.refused(t, "some-client", withPassword("apikey", key[:len(key)-2]+anotherEnd(key[len(key)-2:])))
	}, "the secret of API key"},
	"an unknown key": {func(t *testing.T, h *house, id, key string) {
		h.refused(t, id, withPassword("apikey", "abk_0123456789abcdef."+strings.Repeat("A", 43)))
	}, "there is no API key 0123456789abcdef"},
	"a revoked key": {func(t *testing.T, h *house, id, key string) {
		h.must("key.revoke", fmt.Sprintf(`{"key_id":%q}`, keyID(key)))
		h.refused(t, id, withPassword("apikey", key))
	}, "connect.revoked"},
	"its client id taken": {func(t *testing.T, h *house, id, key string) {
		h.Connect(t, id, withPassword("apikey", h.key(protocol.KindAgent, "other", protocol.RoleEndAgent)))
		h.refused(t, id, withPassword("apikey", key))
	}, "connect.taken"},
	"two devices with one client id": {func(t *testing.T, h *house, id, key string) {
		for range 3 {
			h.Connect(t, id, withPassword("apikey", key))
		}
	}, "connection.taken"},
	"a keep-alive missed": {func(t *testing.T, h *house, id, key string) {
		h.Device(t, id, "light-"+id, switchable, withPassword("apikey", key)).Drop()
		silent(t, h, id, key)
	}, "connection.silent"},
	"a broken packet": {func(t *testing.T, h *house, id, key string) {
		conn := silent(t, h, id, key)
		if _, err := conn.Write([]byte{0xF7, 0x00}); err != nil {
			t.Fatal(err)
		}
	}, "connection.protocol"},
	"not registered": {func(t *testing.T, h *house, id, key string) {
		h.Connect(t, id, withPassword("apikey", key))
	}, "is registered"},
	"a refused registration": {func(t *testing.T, h *house, id, key string) {
		lamp := h.connect(id, key)
		if answer := h.ask(lamp, "agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"toaster"}`, id)); answer.Err == nil {
			t.Fatal("registered as a toaster")
		}
	}, "command.refused"},
	"not listening": {func(t *testing.T, h *house, id, key string) {
		lamp := h.Device(t, id, "light-"+id, switchable, withPassword("apikey", key))
		if _, err := lamp.Unsubscribe(t.Context(), &paho.Unsubscribe{Topics: []string{"aibridge/agent/" + id + "/request"}}); err != nil {
			t.Fatal(err)
		}
	}, "it does not listen on its request topic aibridge/agent/"},
	"a topic of somebody else": {func(t *testing.T, h *house, id, key string) {
		lamp := h.Device(t, id, "light-"+id, switchable, withPassword("apikey", key))
		if ack, _ := lamp.Publish(t.Context(), &paho.Publish{QoS: 1, Topic: "aibridge/agent/heater/response", Payload: []byte("{}")}); ack == nil || ack.ReasonCode != 0x87 {
			t.Fatalf("published as another: %+v", ack)
		}
	}, "topic.publish"},
	"a filter that reaches too far": {func(t *testing.T, h *house, id, key string) {
		lamp := h.Device(t, id, "light-"+id, switchable, withPassword("apikey", key))
		if code := subscribe(t, lamp, "aibridge/#"); code != 0x87 {
			t.Fatalf("SUBACK %#x", code)
		}
	}, "topic.subscribe"},
	"an answer that cannot be read": {func(t *testing.T, h *house, id, key string) {
		h.answers(t, id, key, func(lamp *bridgetest.Raw, r *protocol.Request) {
			lamp.Send(t, "aibridge/agent/"+id+"/response", fmt.Sprintf(`{"id":%q,"type":"response","status":"done","result":{}}`, r.ID))
		})
	}, "answer.unreadable"},
	"a result that does not fit": {func(t *testing.T, h *house, id, key string) {
		h.answers(t, id, key, func(lamp *bridgetest.Raw, r *protocol.Request) {
			lamp.Reply(t, id, r, map[string]any{"lit": "yes"})
		})
	}, "answer.unfit"},
	"an answer to nothing": {func(t *testing.T, h *house, id, key string) {
		lamp := h.Device(t, id, "light-"+id, switchable, withPassword("apikey", key))
		lamp.Reply(t, id, &protocol.Request{ID: "never-asked"}, map[string]any{"lit": true})
	}, "answer.unasked"},
	"an answer to what another was asked": {func(t *testing.T, h *house, id, key string) {
		lamp := h.Device(t, id, "light-"+id, switchable, withPassword("apikey", key))
		heater := h.Device(t, "heater", "heat", switchable, withPassword("apikey", h.key(protocol.KindAgent, "heater", protocol.RoleEndAgent)))
		admin := h.connect("admin-"+id, h.admin)
		admin.Send(t, "aibridge/bridge/request", bridgetest.Request(protocol.NewID(), "skill.invoke", `{"skill_id":"heat","capability_id":"on"}`))
		lamp.Reply(t, id, heater.Invocation(t), map[string]any{"lit": true})
	}, "answer.foreign"},
	"no answer in time": {func(t *testing.T, h *house, id, key string) {
		h.Device(t, id, "light-"+id, switchable, withPassword("apikey", key))
		admin := h.connect("admin-"+id, h.admin)
		request := `{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":"skill.invoke","params":{"skill_id":%q,"capability_id":"on"},"metadata":{"timeout":200}}`
		eventually.Holds(t, "the request reaches the device and is not answered", func() bool { // its time may be over before
			if answer := admin.Ask(t, fmt.Sprintf(request, protocol.NewID(), "light-"+id)); answer.Err == nil || answer.Err.Code != protocol.TimedOut {
				t.Fatalf("answered %+v", answer)
			}
			return !h.examine(h.admin, fmt.Sprintf(`{"agent_id":%q}`, id)).Healthy
		})
	}, "answer.missing"},
	"a clock that is late": {func(t *testing.T, h *house, id, key string) {
		lamp := h.Device(t, id, "light-"+id, switchable, withPassword("apikey", key))
		request := `{"version":"0.6.3","id":"late","timestamp":%d,"type":"request","command":"agent.heartbeat","params":{"agent_id":%q},"metadata":{}}`
		if answer := lamp.Ask(t, fmt.Sprintf(request, time.Now().Add(-time.Hour).UnixMilli(), id)); answer.Err == nil || answer.Err.Code != protocol.RequestExpired {
			t.Fatalf("answered %+v", answer)
		}
	}, "clock.wrong"},
	"a clock that is early": {func(t *testing.T, h *house, id, key string) {
		lamp := h.Device(t, id, "light-"+id, switchable, withPassword("apikey", key))
		request := `{"version":"0.6.3","id":"early","timestamp":%d,"type":"request","command":"agent.heartbeat","params":{"agent_id":%q},"metadata":{}}`
		lamp.Ask(t, fmt.Sprintf(request, time.Now().Add(time.Hour).UnixMilli(), id))
	}, "ahead"},
	"no skill": {func(t *testing.T, h *house, id, key string) {
		lamp := h.connect(id, key)
		if answer := h.ask(lamp, "agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"}`, id)); answer.Err != nil {
			t.Fatal(answer.Err)
		}
		lamp.Listen(t, "aibridge/agent/"+id+"/request")
	}, "it provides no skill"},
	"a misspelt schema": {func(t *testing.T, h *house, id, key string) {
		h.Device(t, id, "light-"+id, `[{"capability_id":"on","params_schema":{"type":"object","propertys":{}}}]`, withPassword("apikey", key))
	}, "propert"},
	"a device that is off": {func(t *testing.T, h *house, id, key string) {
		lamp := h.Device(t, id, "light-"+id, switchable, withPassword("apikey", key))
		if err := lamp.Disconnect(&paho.Disconnect{}); err != nil {
			t.Fatal(err)
		}
	}, "no client of it is connected"},
}

func TestTheDoctorNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	all := newHouse(t)
	n := 0
	for name, c := range seeded {
		n++
		id := fmt.Sprint("lamp-", n)
		t.Run(name, func(t *testing.T) {
			h := &house{Node: all.Node, t: t, admin: all.admin}
			c.seed(t, h, id, h.key(protocol.KindAgent, id, protocol.RoleEndAgent))
			h.finds(h.admin, id, c.want)
		})
	}
}

// refused connects, which fails.
func (h *house) refused(t *testing.T, client string, change ...func(*paho.Connect)) {
	t.Helper()
	if r, err := h.TryConnect(t, client, change...); err == nil || r.Connack == nil {
		t.Fatalf("client %s: CONNACK %+v, %v", client, r.Connack, err)
	}
}

// answers has a lamp asked, and answer in a way.
func (h *house) answers(t *testing.T, id, key string, how func(lamp *bridgetest.Raw, r *protocol.Request)) {
	t.Helper()
	lamp := h.Device(t, id, "light-"+id, switchable, withPassword("apikey", key))
	admin := h.connect("admin-"+id, h.admin)
	params := fmt.Sprintf(`{"skill_id":%q,"capability_id":"on"}`, "light-"+id)
	admin.Send(t, "aibridge/bridge/request", bridgetest.Request(protocol.NewID(), "skill.invoke", params))
	how(lamp, lamp.Invocation(t))
	if answer := admin.Answer(t); answer.Err == nil {
		t.Fatalf("the call went well: %s", answer.Result)
	}
}

// silent connects a client with a keep-alive of a second that it does not keep.
func silent(t *testing.T, h *house, client, key string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", h.MQTT)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	text := func(s string) []byte { return append([]byte{byte(len(s) >> 8), byte(len(s))}, s...) }
	body := append(text("MQTT"), 4, 0xC2, 0, 1) // 3.1.1, user name and password, clean, one second
	body = slices.Concat(body, text(client), text("apikey"), text(key))
	if _, err := conn.Write(append([]byte{0x10, byte(len(body))}, body...)); err != nil {
		t.Fatal(err)
	}
	connack := make([]byte, 4)
	if _, err := io.ReadFull(conn, connack); err != nil || connack[3] != 0 {
		t.Fatalf("CONNACK %x, %v", connack, err)
	}
	return conn
}

// anotherEnd are two characters that are not those.
func anotherEnd(end string) string {
	if end == "QQ" {
		return "gg"
	}
	return "QQ"
}

func keyID(key string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(key, "abk_"), ".")
	return id
}

func TestTheDoctorKnowsWhoseTokenHasExpired(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *app.Config) {
		c.Tokens.Issuers = []token.Issuer{{
			Issuer: "hs", Secret: fileOf(t, []byte(issuerSecret)), RolesClaim: "roles", Roles: map[string]string{"device": protocol.RoleEndAgent}, ScopesClaim: "scope",
		}}
	})
	old := sign(t, jwt.SigningMethodHS256, []byte(issuerSecret), claims("lamp", "iat", time.Now().Add(-2*time.Hour).Unix(), "exp", time.Now().Add(-time.Hour).Unix()))
	h.refused(t, "a-client", withPassword("jwt", old))
	operator := h.key(protocol.KindOperator, "olga", protocol.RoleOperator)
	h.finds(operator, "lamp", "connect.expired")
	forged := sign(t, jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), claims("heater", "exp", time.Now().Add(-time.Hour).Unix()))
	h.refused(t, "a-client", withPassword("jwt", forged))
	if code, body := h.run(operator, "agent.doctor", `{"agent_id":"heater"}`); code != protocol.NotFound {
		t.Errorf("a forged token makes its subject known: %s", body)
	}
}

func TestTheDoctorKnowsWhoseCertificateWasRevoked(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *app.Config) { c.MQTTS = "127.0.0.1:0" })
	admin := h.connect("admin", h.admin)
	cert := issue(t, admin, "lamp")
	if _, err := h.TryConnectTLS(t, h.TLS(t, cert), "lamp"); err != nil {
		t.Fatal(err)
	}
	revoke(t, admin, cert)
	if _, err := h.TryConnectTLS(t, h.TLS(t, cert), "lamp"); err == nil {
		t.Fatal("a revoked certificate opens the door")
	}
	h.finds(h.admin, "lamp", "connect.revoked")
}

func TestStrangersAreKnownToAdministratorsAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.refused(t, "lamp", withPassword("apikey", "abk_0123456789abcdef."+strings.Repeat("A", 43)))
	h.finds(h.admin, "lamp", "connect.credential")
	_, unknown := h.run(h.admin, "agent.doctor", `{"agent_id":"nothing"}`)
	for name, key := range map[string]string{
		"an operator":        h.key(protocol.KindOperator, "olga", protocol.RoleOperator),
		"an observer":        h.key(protocol.KindOperator, "oskar", protocol.RoleObserver),
		"another tenant's":   h.key(protocol.KindOperator, "tom", protocol.RoleOperator, `,"space_id":"blue"`),
		"the device of that": h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent, `,"space_id":"green"`),
	} {
		code, body := h.run(key, "agent.doctor", `{"agent_id":"lamp"}`)
		if strings.Contains(body, "0123456789abcdef") || name != "the device of that" && code != protocol.NotFound {
			t.Errorf("to %s: %s", name, body)
		}
	}
	if !strings.Contains(unknown, `"3001"`) {
		t.Errorf("of nobody: %s", unknown)
	}
}

func TestOtherTenantsGetTheSameNotFoundAsAlways(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Device(t, "lamp", "light", switchable, withPassword("apikey", h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)))
	blue := h.key(protocol.KindOperator, "tom", protocol.RoleOperator, `,"space_id":"blue"`)
	same := func(one, other string) {
		t.Helper()
		oneCode, oneBody := h.run(blue, "agent.doctor", one)
		otherCode, otherBody := h.run(blue, "agent.get", other)
		if oneCode != otherCode || message(t, oneBody) != message(t, otherBody) {
			t.Errorf("agent.doctor answers %s, agent.get %s", oneBody, otherBody)
		}
	}
	for _, params := range []string{`{"agent_id":"lamp"}`, `{"agent_id":"lamp","space_id":"default"}`, `{"agent_id":"nothing","space_id":"default"}`, `{"agent_id":"nothing"}`} {
		same(params, params)
	}
	stranger := h.key(protocol.KindAgent, "heater", protocol.RoleEndAgent)
	if code, body := h.run(stranger, "agent.doctor", `{"agent_id":"lamp"}`); code != protocol.PermissionDenied {
		t.Errorf("to another device: %s", body)
	}
}

func message(t *testing.T, body string) string {
	t.Helper()
	var failure struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &failure); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return failure.Error.Message
}

// A developer who listens to the topic of a device sees why its answers were
// dropped: each kind once a minute.
func TestADeviceIsToldWhatItDoesWrong(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	lamp := h.Device(t, "lamp", "light", switchable, withPassword("apikey", key))
	ears := []*bridgetest.Raw{h.Connect(t, "developer", withPassword("apikey", key)), h.Connect(t, "operator", withPassword("apikey", h.key(protocol.KindOperator, "olga", protocol.RoleOperator)))}
	for _, ear := range ears {
		ear.Listen(t, "aibridge/agent/lamp/event")
	}
	heater := h.Connect(t, "heater", withPassword("apikey", h.key(protocol.KindAgent, "heater", protocol.RoleEndAgent)))
	if code := subscribe(t, heater, "aibridge/agent/lamp/event"); code != 0x87 {
		t.Errorf("another device may listen: SUBACK %#x", code)
	}
	for range 3 {
		lamp.Send(t, "aibridge/agent/lamp/response", `{"no":"envelope"`)
	}
	lamp.Reply(t, "lamp", &protocol.Request{ID: "never-asked"}, map[string]any{"lit": true})
	for _, ear := range ears {
		for _, want := range []doctor.Kind{doctor.AnswerUnreadable, doctor.AnswerUnasked} {
			event, err := protocol.DecodeEvent(ear.Next(t).Payload, protocol.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			var told struct {
				AgentID  protocol.AgentID `json:"agent_id"`
				Kind     doctor.Kind      `json:"kind"`
				What, Do string
			}
			if json.Unmarshal(event.Data, &told) != nil || event.Name != "agent.fault" || told.AgentID != "lamp" || told.Kind != want || told.Do == "" {
				t.Errorf("%s is told %s %s, want %s", ear.ID, event.Name, event.Data, want)
			}
		}
	}
}

// An operator's gateway that speaks for a device is not examined by the device.
func TestADeviceLearnsNothingOfItsOwner(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.key(protocol.KindOperator, "olga", protocol.RoleOperator)
	device := h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	ear := h.Connect(t, "ear", withPassword("apikey", device))
	ear.Listen(t, "aibridge/agent/lamp/event")
	gateway := h.Device(t, "lamp", "light", switchable, withPassword("apikey", owner))
	if code := subscribe(t, gateway, "aibridge/#"); code < 0x80 {
		t.Fatalf("the gateway may listen to everything: SUBACK %#x", code)
	}
	for name, key := range map[string]string{"the device": device, "the owner": owner} {
		_, body := h.run(key, "agent.doctor", `{"agent_id":"lamp"}`)
		for _, secret := range []string{keyID(owner), "olga", "127.0.0.1", "topic.subscribe"} {
			if strings.Contains(body, secret) != (name == "the owner") {
				t.Errorf("of %q, to %s: %s", secret, name, body)
			}
		}
	}
	gateway.Send(t, "aibridge/agent/lamp/response", `{"no":"envelope"`) // the agent's own fault, and told after the owner's
	event, err := protocol.DecodeEvent(ear.Next(t).Payload, protocol.Limits{})
	if err != nil || !strings.Contains(string(event.Data), string(doctor.AnswerUnreadable)) {
		t.Errorf("the device is told first: %s, %v", event.Data, err)
	}
}
