package app_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"
	"github.com/google/uuid"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// onMQTT serves A2A over MQTT, and over HTTP.
func onMQTT(c *app.Config) {
	c.ID, c.A2A.On, c.A2A.MQTT, c.A2A.Remote = "home", true, "acme/bridge", true
}

const mqttCard = `{"name":"Greeter","description":"Greets","version":"1","capabilities":{"streaming":false},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
	"supportedInterfaces":[{"url":"mqtt://127.0.0.1:1883","protocolBinding":"MQTT5+JSONRPC","protocolVersion":"1.0","tenant":"acme/lab"}],
	"skills":[{"id":"greet","name":"Greet","description":"Says hello","tags":[]}]}`

// told publishes, and returns the reason code of the acknowledgement.
func toldBy(t testing.TB, c *bridgetest.Raw, p *paho.Publish) byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	p.QoS = 1
	answer, err := c.Publish(ctx, p)
	if answer == nil {
		t.Fatalf("publish to %s: %v", p.Topic, err)
	}
	return answer.ReasonCode
}

func registers(t testing.TB, c *bridgetest.Raw, id, card string) byte {
	t.Helper()
	return toldBy(t, c, &paho.Publish{Topic: "$a2a/v1/discovery/" + id, Retain: true, Payload: []byte(card)})
}

// refusesFilter reports whether a subscription is refused.
func refusesFilter(t testing.TB, c *bridgetest.Raw, filter string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	answer, err := c.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}})
	if answer == nil {
		t.Fatalf("subscribe to %s: %v", filter, err)
	}
	return answer.Reasons[0] >= 0x80
}

// statusOf is the status of an agent beside its card, and the status's source.
func statusOf(p *paho.Publish) string {
	return p.Properties.User.Get("a2a-status") + " " + p.Properties.User.Get("a2a-status-source")
}

// [A2AM-discovery-1] [A2AM-discovery-2] [A2AM-discovery-3] [A2AM-discovery-4] [A2AM-session-1] [A2AM-presence-1] [A2AM-presence-2]
func TestCardsOnMQTTAreTheirAgents(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, onMQTT)
	const id, place = "acme/lab/greeter", "$a2a/v1/discovery/acme/lab/greeter"
	watcher := n.Connect(t, "acme/lab/watcher")
	watcher.Listen(t, "$a2a/v1/discovery/acme/lab/+")
	agent := n.Connect(t, id, func(p *paho.Connect) { // with a Will, as the profile has it
		p.WillMessage = &paho.WillMessage{Topic: place, Payload: []byte(mqttCard), QoS: 1, Retain: true}
		p.WillProperties = &paho.WillProperties{User: paho.UserProperties{{Key: "a2a-status", Value: "offline"}, {Key: "a2a-status-source", Value: "lwt"}}}
	})
	for name, p := range map[string]*paho.Publish{
		"not retained":          {Topic: place, Payload: []byte(mqttCard)},
		"of another client id":  {Topic: "$a2a/v1/discovery/acme/lab/other", Retain: true, Payload: []byte(mqttCard)},
		"no card":               {Topic: place, Retain: true, Payload: []byte(`{"name":"x"}`)},
		"no JSON":               {Topic: place, Retain: true, Payload: []byte(`hello`)},
		"too large":             {Topic: place, Retain: true, Payload: []byte(strings.Replace(mqttCard, "Greets", strings.Repeat("x", 64<<10), 1))},
		"of an id that is none": {Topic: "$a2a/v1/discovery/acme/lab/a b", Retain: true, Payload: []byte(mqttCard)},
		"deeper":                {Topic: place + "/more", Retain: true, Payload: []byte(mqttCard)},
	} {
		if reason := toldBy(t, agent, p); reason < 0x80 {
			t.Errorf("a card that is %s is taken: %#x", name, reason)
		}
	}
	bridge := n.Connect(t, "acme/bridge/home")
	if reason := registers(t, bridge, "acme/bridge/home", mqttCard); reason < 0x80 {
		t.Errorf("the bridge's own card is replaced: %#x", reason)
	}
	if reason := toldBy(t, bridge, &paho.Publish{Topic: "$a2a/v1/event/acme/bridge/home", Payload: []byte("{}")}); reason < 0x80 {
		t.Errorf("somebody speaks for the bridge: %#x", reason)
	}
	for _, filter := range []string{"$a2a/v1/request/acme/bridge/home", "$a2a/v1/reply/acme/bridge/home/#", "$share/g/$a2a/v1/request/acme/bridge/pool/x"} {
		if !refusesFilter(t, bridge, filter) {
			t.Errorf("somebody listens for the bridge: %s", filter)
		}
	}
	if reason := registers(t, agent, id, mqttCard); reason >= 0x80 {
		t.Fatalf("the card is refused: %#x", reason)
	}
	if p := watcher.Next(t); p.Topic != place || statusOf(p) != "online broker" || string(p.Payload) != mqttCard {
		t.Errorf("got %s %q %s", p.Topic, statusOf(p), p.Payload)
	}
	agent.Drop()
	if p := watcher.Next(t); p.Topic != place || statusOf(p) != "offline broker" || len(p.Payload) == 0 {
		t.Errorf("once it is gone: %s %q", p.Topic, statusOf(p))
	}
	n.Restart(t)
	late := n.Connect(t, "acme/lab/late")
	late.Listen(t, "$a2a/v1/discovery/acme/lab/#")
	if p := late.Next(t); p.Topic != place || !p.Retain || statusOf(p) != "offline broker" {
		t.Errorf("after a restart: %s %q", p.Topic, statusOf(p))
	}
	agent = n.Connect(t, id)
	if p := late.Next(t); statusOf(p) != "online broker" {
		t.Errorf("once it is back: %q", statusOf(p))
	}
	if reason := registers(t, agent, id, ""); reason >= 0x80 {
		t.Errorf("it cannot withdraw: %#x", reason)
	}
	if p := late.Next(t); p.Topic != place || len(p.Payload) != 0 {
		t.Errorf("withdrawn: %s %s", p.Topic, p.Payload)
	}
}

// asks publishes a request of JSON-RPC.
func asksOn(t testing.TB, c *bridgetest.Raw, to, reply, correlation, body string) byte {
	t.Helper()
	return toldBy(t, c, &paho.Publish{Topic: "$a2a/v1/request/" + to, Payload: []byte(body), Properties: &paho.PublishProperties{
		ResponseTopic: reply, CorrelationData: []byte(correlation), ContentType: "application/json",
	}})
}

func repliesOn(t testing.TB, c *bridgetest.Raw, topic, correlation, body string, user ...paho.UserProperty) byte {
	t.Helper()
	return toldBy(t, c, &paho.Publish{Topic: topic, Payload: []byte(body), Properties: &paho.PublishProperties{CorrelationData: []byte(correlation), User: user}})
}

// [A2AM-request-1] [A2AM-request-2] [A2AM-request-3] [A2AM-request-4] [A2AM-qos-1] [A2AM-pool-1] [A2AM-pool-2] [A2AM-pool-3]
func TestAgentsOnMQTTSpeakForThemselvesAlone(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, onMQTT)
	agent, other, asker := n.Connect(t, "acme/lab/greeter"), n.Connect(t, "acme/lab/other"), n.Connect(t, "acme/office/asker")
	stranger := n.Connect(t, "stranger")
	for c, filters := range map[*bridgetest.Raw][]string{
		stranger: {"$a2a/v1/request/acme/lab/greeter", "$a2a/v1/request/#", "$a2a/v1/request/acme/lab/+", "$a2a/v1/reply/acme/office/asker/#", "$a2a/v1/reply/#", "$a2a/#", "$a2a/v1/+/acme/lab/greeter",
			"$share/g/$a2a/v1/request/acme/lab/pool/work", "$a2a/v1/request/acme/lab/pool/work"},
		other: {"$a2a/v1/request/acme/lab/greeter", "$share/g/$a2a/v1/request/acme/lab/greeter", "$share/g/$a2a/v1/request/acme/office/pool/work"},
	} {
		for _, filter := range filters {
			if !refusesFilter(t, c, filter) {
				t.Errorf("%s subscribes to %s", c.ID, filter)
			}
		}
	}
	agent.Listen(t, "$a2a/v1/request/acme/lab/greeter")
	const reply = "$a2a/v1/reply/acme/office/asker/r1"
	asker.Listen(t, "$a2a/v1/reply/acme/office/asker/#")
	for name, reason := range map[string]byte{
		"without a Response Topic":         asksOn(t, asker, "acme/lab/greeter", "", "c", "{}"),
		"without Correlation Data":         asksOn(t, asker, "acme/lab/greeter", reply, "", "{}"),
		"with somebody's Response Topic":   asksOn(t, asker, "acme/lab/greeter", "$a2a/v1/reply/acme/lab/other/r", "c", "{}"),
		"that is retained":                 toldBy(t, asker, &paho.Publish{Topic: "$a2a/v1/request/acme/lab/greeter", Retain: true, Payload: []byte("{}")}),
		"as a reply that nobody waits for": repliesOn(t, stranger, reply, "c-1", "{}"),
		"as an event of somebody else":     toldBy(t, stranger, &paho.Publish{Topic: "$a2a/v1/event/acme/lab/greeter", Payload: []byte("{}")}),
	} {
		if reason < 0x80 {
			t.Errorf("a message %s is taken", name)
		}
	}
	if reason := asksOn(t, asker, "acme/lab/greeter", reply, "c-1", `{"ask":1}`); reason >= 0x80 {
		t.Fatalf("the request is refused: %#x", reason)
	}
	got := agent.Next(t)
	if string(got.Payload) != `{"ask":1}` || got.Properties.ResponseTopic != reply || string(got.Properties.CorrelationData) != "c-1" {
		t.Fatalf("got %+v", got)
	}
	for _, c := range []*bridgetest.Raw{stranger, other} {
		if reason := repliesOn(t, c, reply, "c-1", `{"forged":1}`); reason < 0x80 {
			t.Errorf("%s answers in the agent's place", c.ID)
		}
	}
	for i := range 2 { // a stream
		if reason := repliesOn(t, agent, reply, "c-1", fmt.Sprintf(`{"item":%d}`, i)); reason >= 0x80 {
			t.Fatalf("the reply is refused: %#x", reason)
		}
		if p := asker.Next(t); string(p.Payload) != fmt.Sprintf(`{"item":%d}`, i) || string(p.Properties.CorrelationData) != "c-1" {
			t.Errorf("got %s", p.Payload)
		}
	}

	for _, c := range []*bridgetest.Raw{agent, other} {
		c.Listen(t, "$share/a2a.acme.lab.work/$a2a/v1/request/acme/lab/pool/work")
	}
	asksOn(t, asker, "acme/lab/pool/work", reply, "c-2", `{"pooled":1}`)
	var member *bridgetest.Raw
	eventually.Holds(t, "one of the pool is asked", func() bool {
		for _, c := range []*bridgetest.Raw{agent, other} {
			if len(c.Received) > 0 {
				member = c
			}
		}
		return member != nil
	})
	if reason := repliesOn(t, member, reply, "c-2", `{}`); reason < 0x80 {
		t.Error("a reply from a pool does not say who replies")
	}
	if reason := repliesOn(t, stranger, reply, "c-2", `{}`, paho.UserProperty{Key: "a2a-responder-agent-id", Value: "greeter"}); reason < 0x80 {
		t.Error("a stranger replies for a pool")
	}
	if reason := repliesOn(t, member, reply, "c-2", `{"of":"pool"}`, paho.UserProperty{Key: "a2a-responder-agent-id", Value: "greeter"}); reason >= 0x80 {
		t.Errorf("the reply from the pool is refused: %#x", reason)
	}
	if p := asker.Next(t); string(p.Payload) != `{"of":"pool"}` || p.Properties.User.Get("a2a-responder-agent-id") != "greeter" {
		t.Errorf("got %s", p.Payload)
	}
}

// [A2AM-session-2] [A2AM-session-3]
func TestA2AOverMQTTStaysInItsSpace(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t, onMQTT)
	client := func(id, who, space string) *bridgetest.Raw {
		key := keyFor(t, admin, fmt.Sprintf(`{"principal_id":%q,"space_id":%q}`, who, space))
		return n.Connect(t, id, withPassword("apikey", key))
	}
	const id = "acme/lab/greeter"
	agent := client(id, "greeter", "east")
	agent.Listen(t, "$a2a/v1/request/"+id)
	if reason := registers(t, agent, id, mqttCard); reason >= 0x80 {
		t.Fatalf("the card is refused: %#x", reason)
	}
	here, there := client("acme/lab/here", "here", "east"), client("acme/lab/there", "there", "west")
	here.Listen(t, "$a2a/v1/discovery/acme/lab/+")
	there.Listen(t, "$a2a/v1/discovery/#", "$a2a/v1/reply/acme/lab/there/#")
	if p := here.Next(t); string(p.Payload) != mqttCard {
		t.Errorf("got %s", p.Payload)
	}
	asksOn(t, there, id, "$a2a/v1/reply/acme/lab/there/x", "c", "{}")
	twin := client(id, "twin", "west") // the same id in another space is another agent
	if reason := registers(t, twin, id, strings.Replace(mqttCard, "Greeter", "Twin", 1)); reason >= 0x80 {
		t.Errorf("the same id in another space: %#x", reason)
	}
	var twins *paho.Publish
	for twins == nil || !strings.HasSuffix(twins.Topic, id) {
		twins = there.Next(t)
		if strings.HasSuffix(twins.Topic, id) && !strings.Contains(string(twins.Payload), "Twin") {
			t.Fatalf("another space sees %s", twins.Payload)
		}
	}
	agent.Drop()
	if p := here.Next(t); statusOf(p) != "offline broker" {
		t.Errorf("got %q", statusOf(p))
	}
	thief := client(id, "thief", "east")
	if reason := registers(t, thief, id, mqttCard); reason < 0x80 {
		t.Error("a card is replaced by another principal")
	}
	if reason := registers(t, thief, id, ""); reason < 0x80 {
		t.Error("a card is withdrawn by another principal")
	}
	if !refusesFilter(t, thief, "$a2a/v1/request/"+id) {
		t.Error("requests are heard by another principal")
	}
	if len(agent.Received) > 0 {
		t.Errorf("a request of another space came: %s", (<-agent.Received).Payload)
	}
}

func TestCardsOfOnePartyAreBounded(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, onMQTT)
	full := false
	for i := 0; i < 80 && !full; i++ {
		id := fmt.Sprintf("acme/lab/a%d", i)
		c := n.Connect(t, id)
		full = registers(t, c, id, mqttCard) == 0x97
		c.Drop()
	}
	if !full {
		t.Error("one party registers as many agents as it likes")
	}
}

// An asking is a requester over MQTT.
type asking struct {
	*bridgetest.Raw
	to, reply string
	count     int
}

func (a *asking) send(t testing.TB, method, params string) string {
	t.Helper()
	a.count++
	correlation := fmt.Sprint("c-", a.count)
	if reason := asksOn(t, a.Raw, a.to, a.reply, correlation, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, a.count, method, params)); reason >= 0x80 {
		t.Fatalf("%s is refused: %#x", method, reason)
	}
	return correlation
}

func (a *asking) hears(t testing.TB, correlation string) (result json.RawMessage, fault *mqttFault) {
	t.Helper()
	p := a.Next(t)
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *mqttFault      `json:"error"`
	}
	if err := json.Unmarshal(p.Payload, &answer); err != nil || string(p.Properties.CorrelationData) != correlation || p.QoS != 1 {
		t.Fatalf("%v %s, correlation %q, want %q", err, p.Payload, p.Properties.CorrelationData, correlation)
	}
	return answer.Result, answer.Error
}

func (a *asking) ask(t testing.TB, method, params string) (json.RawMessage, *mqttFault) {
	t.Helper()
	return a.hears(t, a.send(t, method, params))
}

type mqttFault struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func messageOf(task, context, data string) string {
	return fmt.Sprintf(`{"message":{"messageId":%q,"taskId":%q,"contextId":%q,"role":"ROLE_USER","parts":[{"data":%s}]}}`, uuid.NewString(), task, context, data)
}

// [A2AM-responder-1] [A2AM-responder-2] [A2AM-responder-3] [A2AM-responder-4] [A2AM-responder-5] [A2AM-turns-1] [A2AM-turns-2] [A2AM-turns-3] [A2AM-stream-1] [A2AM-stream-2] [A2AM-errors-1] [A2AM-errors-2]
func TestTheBridgeAnswersOverMQTT(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, onMQTT)
	cancelled := heater(t, n)
	a := &asking{Raw: n.Connect(t, "acme/office/asker"), to: "acme/bridge/home", reply: "$a2a/v1/reply/acme/office/asker/r1"}
	a.Listen(t, "$a2a/v1/reply/acme/office/asker/+")
	task, talk := uuid.NewString(), uuid.NewString()
	set := `{"skill_id":"heater","capability_id":"set","params":{"celsius":21}}`
	for range 2 { // and again, as if the reply had been lost
		result, fault := a.ask(t, "SendMessage", messageOf(task, talk, set))
		var sent struct{ Task a2aTask }
		if fault != nil || json.Unmarshal(result, &sent) != nil || sent.Task.ID != task || sent.Task.Context != talk || sent.Task.result() != `{"target":21}` || len(sent.Task.History) != 1 {
			t.Fatalf("%+v %s", fault, result)
		}
	}
	if result, fault := a.ask(t, "GetTask", fmt.Sprintf(`{"id":%q}`, task)); fault != nil || !strings.Contains(string(result), task) {
		t.Errorf("%+v %s", fault, result)
	}
	for name, one := range map[string]struct {
		method, params string
		code           int
	}{
		"no task":           {"SendMessage", messageOf("", talk, set), -32602},
		"no UUID":           {"SendMessage", messageOf("task-1", talk, set), -32602},
		"another context":   {"SendMessage", messageOf(task, uuid.NewString(), set), -32602},
		"no method":         {"tasks/get", `{}`, -32601},
		"a task of nobody":  {"GetTask", fmt.Sprintf(`{"id":%q}`, uuid.NewString()), -32001},
		"an unknown device": {"SendMessage", messageOf(uuid.NewString(), "", `{"skill_id":"x","capability_id":"y"}`), -32602},
	} {
		if _, fault := a.ask(t, one.method, one.params); fault == nil || fault.Code != one.code {
			t.Errorf("%s: %+v", name, fault)
		}
	}
	if reason := asksOn(t, a.Raw, a.to, a.reply, "x", "no JSON"); reason >= 0x80 {
		t.Errorf("%#x", reason)
	}
	if _, fault := a.hears(t, "x"); fault == nil || fault.Code != -32700 {
		t.Errorf("%+v", fault)
	}
	asksOn(t, a.Raw, a.to, a.reply, "", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}`)
	if _, fault := a.hears(t, ""); fault == nil || fault.Code != -32005 || string(fault.Data) != `{"a2a_error":"transport_protocol_error"}` {
		t.Errorf("without Correlation Data: %+v", fault)
	}

	long := uuid.NewString()
	stream := a.send(t, "SendStreamingMessage", messageOf(long, talk, `{"skill_id":"heater","capability_id":"warm-up"}`))
	heard := ""
	for !strings.Contains(heard, "getting warm") {
		result, fault := a.hears(t, stream)
		if fault != nil {
			t.Fatalf("%+v", fault)
		}
		heard = string(result)
	}
	a.send(t, "CancelTask", fmt.Sprintf(`{"id":%q}`, long))
	<-cancelled
	ended, answered := false, false
	for !ended || !answered {
		p := a.Next(t)
		canceled := strings.Contains(string(p.Payload), "TASK_STATE_CANCELED")
		if string(p.Properties.CorrelationData) == stream {
			ended = ended || canceled
		} else {
			answered = answered || canceled
		}
	}

	own := &asking{Raw: a.Raw, to: "acme/bridge/heater", reply: a.reply, count: 1000}
	if result, fault := own.ask(t, "SendMessage", messageOf(uuid.NewString(), "", `{"capability_id":"set","params":{"celsius":22}}`)); fault != nil || !strings.Contains(string(result), `{"target":22}`) {
		t.Errorf("a set of skills as an agent on MQTT: %+v %s", fault, result)
	}
	watcher := n.Connect(t, "acme/lab/watcher")
	watcher.Listen(t, "$a2a/v1/discovery/acme/bridge/+")
	if p := watcher.Next(t); p.Topic != "$a2a/v1/discovery/acme/bridge/home" || !strings.Contains(string(p.Payload), "MQTT5+JSONRPC") || strings.Contains(string(p.Payload), "heater") || statusOf(p) != "online broker" {
		t.Errorf("the bridge's own card is %s", p.Payload)
	}
}

// [A2AM-responder-6] [A2AM-turns-4]
func TestRequestsOverMQTTWhoseWordsDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, onMQTT)
	heater(t, n)
	a := &asking{Raw: n.Connect(t, "acme/office/asker"), to: "acme/bridge/home", reply: "$a2a/v1/reply/acme/office/asker/r1"}
	a.Listen(t, "$a2a/v1/reply/acme/office/asker/+")
	talk := uuid.NewString()
	for at, one := range []struct {
		property, value string
		refused         bool
	}{
		{"a2a-security-profile", "ubsp-v1", true},
		{"a2a-context-id", uuid.NewString(), true},
		{"a2a-context-id", talk, false},
		{"a2a-authorization", "Bearer s3cret", false},
		{"a2a-invented", "x", false},
	} {
		correlation := fmt.Sprint("p-", at)
		body := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + messageOf(uuid.NewString(), talk, `{"skill_id":"heater","capability_id":"set","params":{"celsius":21}}`) + `}`
		toldBy(t, a.Raw, &paho.Publish{Topic: "$a2a/v1/request/" + a.to, Payload: []byte(body), Properties: &paho.PublishProperties{
			ResponseTopic: a.reply, CorrelationData: []byte(correlation), User: paho.UserProperties{{Key: one.property, Value: one.value}},
		}})
		result, fault := a.hears(t, correlation)
		if one.refused && (fault == nil || fault.Code != -32005 || string(fault.Data) != `{"a2a_error":"transport_protocol_error"}`) || !one.refused && (fault != nil || !strings.Contains(string(result), `"target":21`)) {
			t.Errorf("%s: %+v %s", one.property, fault, result)
		}
		if strings.Contains(string(result), "s3cret") {
			t.Errorf("the token comes back: %s", result)
		}
	}
}

// [A2AM-keys-1]
func TestCardsWithStrangersKeysAreRefused(t *testing.T) {
	t.Parallel()
	const trusted = "https://keys.example/jwks.json"
	n := bridgetest.Start(t, onMQTT, func(c *app.Config) { c.A2A.TrustedJWKS = []string{trusted} })
	agent := n.Connect(t, "acme/lab/greeter")
	with := func(extension, more string) string {
		return strings.Replace(mqttCard, `"capabilities":{"streaming":false}`, `"capabilities":{"streaming":false,"extensions":[`+extension+`]}`+more, 1)
	}
	keys := func(url string) string {
		return `{"uri":"urn:a2a:mqtt-profile:v1","params":{"securityMetadata":{"jwksUri":"` + url + `"}}}`
	}
	signed := func(header string) string {
		return `,"signatures":[{"protected":"` + base64.RawURLEncoding.EncodeToString([]byte(header)) + `","signature":"x"}]`
	}
	for card, taken := range map[string]bool{
		mqttCard:                              true,
		with(keys(trusted), ""):               true,
		with(keys(trusted+"?"), ""):           false,
		with(keys("https://a.example/k"), ""): false,
		with(keys(trusted)+","+keys("https://a.example/k"), ""):       false,
		with(`{"uri":"urn:x","params":["https://a.example/k"]}`, ""):  false,
		with("", signed(`{"alg":"ES256","jku":"`+trusted+`"}`)):       true,
		with("", signed(`{"alg":"ES256","jku":"https://a.example"}`)): false,
		with("", `,"signatures":[{"protected":"?"}]`):                 false,
	} {
		if reason := registers(t, agent, "acme/lab/greeter", card); reason < 0x80 != taken {
			t.Errorf("%s: %#x", card, reason)
		}
	}
}

// greets has an agent on MQTT answer every request.
func greets(t testing.TB, n *bridgetest.Node, id string) *bridgetest.Raw {
	t.Helper()
	agent := n.Connect(t, id)
	agent.Listen(t, "$a2a/v1/request/"+id)
	if reason := registers(t, agent, id, mqttCard); reason >= 0x80 {
		t.Fatalf("the card is refused: %#x", reason)
	}
	go func() {
		for {
			select {
			case <-t.Context().Done():
				return
			case p := <-agent.Received:
				var request struct {
					ID     string `json:"id"`
					Params struct{ Message a2aMessage }
				}
				_ = json.Unmarshal(p.Payload, &request) // the answer does without
				m := request.Params.Message
				if len(m.Parts) == 0 { // it is to cancel
					continue
				}
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"task":{"id":%q,"contextId":%q,"status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"Hello, %s"}]}]}}}`,
					request.ID, m.Task, m.Context, m.Parts[0].Text)
				_, _ = agent.Publish(t.Context(), &paho.Publish{Topic: p.Properties.ResponseTopic, QoS: 1, Payload: []byte(body), Properties: &paho.PublishProperties{CorrelationData: p.Properties.CorrelationData}})
			}
		}
	}()
	return agent
}

// [A2AM-requester-1] [A2AM-requester-7] [A2AM-gateway-1]
func TestAnAgentOnMQTTIsReachedOverHTTPAndAsASkill(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, onMQTT)
	c := n.Caller(t, "operator")
	if code := refusedWith(t, c, "a2a.agent.add", `{"agent_id":"greeter","mqtt":"acme/lab/greeter"}`); code == "" {
		t.Error("an agent without a card is added")
	}
	agent := greets(t, n, "acme/lab/greeter")
	approved(t, c, "greeter", `{"agent_id":"greeter","mqtt":"acme/lab/greeter","risk":"low"}`)
	var got answered
	if err := json.Unmarshal(must(t, c, "skill.invoke", `{"skill_id":"greeter","capability_id":"greet","params":{"text":"Ada"}}`), &got); err != nil || got.Data.Text != "Hello, Ada" {
		t.Errorf("%v %+v", err, got)
	}
	over := &a2aClient{base: n.HTTPURL(""), tenant: "greeter"}
	if status, text, _ := over.text(t, http.MethodPost, "/a2a/greeter/message:send", `{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"text":"Bob"}]}}`); status != http.StatusOK || !strings.Contains(text, "Hello, Bob") || !strings.Contains(text, "TASK_STATE_COMPLETED") {
		t.Errorf("over HTTP: %d %s", status, text)
	}
	if reason := registers(t, agent, "acme/lab/greeter", strings.Replace(mqttCard, "Says hello", "Says something else", 1)); reason >= 0x80 {
		t.Fatalf("%#x", reason)
	}
	eventually.Holds(t, "an agent with another card is not used", func() bool {
		return refusedWith(t, c, "skill.invoke", `{"skill_id":"greeter","capability_id":"greet","params":{"text":"Ada"}}`) != ""
	})
}

// An approval is for the agent of one principal: the same card of another one is a
// new card, and that one's agent is asked nothing.
func TestAnApprovedAgentOnMQTTIsThatOfItsPublisher(t *testing.T) {
	t.Parallel()
	n, admin, _ := guarded(t, onMQTT)
	const id, topic = "acme/lab/greeter", "$a2a/v1/request/acme/lab/greeter"
	client := func(who string) *bridgetest.Raw {
		return n.Connect(t, id, withPassword("apikey", keyFor(t, admin, fmt.Sprintf(`{"principal_id":%q}`, who))))
	}
	agent := client("greeter")
	if reason := registers(t, agent, id, mqttCard); reason >= 0x80 {
		t.Fatalf("the card is refused: %#x", reason)
	}
	approved(t, admin, "greeter", `{"agent_id":"greeter","mqtt":"acme/lab/greeter","risk":"low"}`)
	if reason := registers(t, agent, id, ""); reason >= 0x80 {
		t.Fatalf("it cannot withdraw: %#x", reason)
	}
	agent.Drop()
	other := client("other")
	other.Listen(t, topic)
	if reason := registers(t, other, id, mqttCard); reason >= 0x80 {
		t.Fatalf("the id that became free is refused: %#x", reason)
	}
	now := remoteAgent(t, admin, "a2a.agent.refresh", `{"agent_id":"greeter"}`)
	if now.State != "changed" || !strings.HasSuffix(now.Publisher, "/other") {
		t.Errorf("the card of another principal is %+v", now)
	}
	if code := refusedWith(t, admin, "skill.invoke", `{"skill_id":"greeter","capability_id":"greet","params":{"text":"Ada"}}`); code == "" {
		t.Error("another principal's agent answers in the name of the one that was approved")
	}
	if len(other.Received) > 0 {
		t.Errorf("another principal is asked: %s", (<-other.Received).Payload)
	}
}

func TestTheCommandsOfThePageAboutA2AOverMQTTWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/a2a.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## A2A over MQTT")
	card := regexp.MustCompile(`(?m)^card='(.*)'$`).FindStringSubmatch(section)
	publish := regexp.MustCompile(`mosquitto_pub -V 5 -i (\S+) -q 1 -r -t '(\S+)' -m`).FindStringSubmatch(section)
	listen := regexp.MustCompile(`mosquitto_sub -V 5 -C 1 -t '(\S+)'`).FindStringSubmatch(section)
	add := regexp.MustCompile(`(?m)^aibridge call (\S+) '(.*)'$`).FindStringSubmatch(section)
	if card == nil || publish == nil || listen == nil || add == nil {
		t.Fatal("the page has no such commands")
	}
	n := bridgetest.Start(t, onMQTT)
	agent := n.Connect(t, publish[1])
	if reason := toldBy(t, agent, &paho.Publish{Topic: publish[2], Retain: true, Payload: []byte(card[1])}); reason >= 0x80 {
		t.Fatalf("the card is refused: %#x", reason)
	}
	watcher := n.Connect(t, "watcher")
	watcher.Listen(t, listen[1])
	if p := watcher.Next(t); string(p.Payload) != card[1] {
		t.Errorf("got %s", p.Payload)
	}
	if added := remoteAgent(t, n.Caller(t, "operator"), add[1], add[2]); added.State != "new" {
		t.Errorf("got %+v", added)
	}
}
