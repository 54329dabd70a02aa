package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.golang/paho"
	mqtt3 "github.com/eclipse/paho.mqtt.golang"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// A tenancy is a bridge with two tenants. Red asks, in every way there is, and
// ears of blue - and of others in red - listen wherever they may.
type tenancy struct {
	*house
	red    string // key of an administrator at home in red
	ears   []*ear
	rounds int
}

// An ear is somebody who must not hear what is not meant for it.
type ear struct {
	*bridgetest.Raw
	who string
	// may says whether the ear is one of those that a message is for.
	may func(p *paho.Publish) bool
}

func newTenancy(t *testing.T) *tenancy {
	w := &tenancy{house: newHouse(t)}
	w.red = w.key(protocol.KindOperator, "ann", protocol.RoleAdministrator, `,"space_id":"red"`)
	never := func(*paho.Publish) bool { return false }
	ofBridge := func(p *paho.Publish) bool { // and of its own space
		return slices.Contains([]string{"agent", "cap", "event", "scene", "task"}, family(p.Topic)) && !strings.Contains(p.Topic, "/client/")
	}
	for _, e := range []struct {
		id    string
		kind  protocol.Kind
		role  string
		space string
		may   func(*paho.Publish) bool
	}{
		{"bob", protocol.KindOperator, protocol.RoleOperator, "blue", never},
		{"ann", protocol.KindOperator, protocol.RoleOperator, "blue", never}, // who asks has a namesake
		{"ann", protocol.KindAgent, protocol.RoleEndAgent, "green", never},
		{"eve", protocol.KindOperator, protocol.RoleObserver, "blue", never},
		{"amy", protocol.KindOperator, protocol.RoleOperator, "red", ofBridge},
		{"abe", protocol.KindAgent, protocol.RoleEndAgent, "red", never},
	} {
		key := w.key(e.kind, e.id, e.role, fmt.Sprintf(`,"space_id":%q`, e.space))
		name := strings.Join([]string{e.space, string(e.kind), e.id}, "-")
		w.ears = append(w.ears, &ear{w.connect("ear-"+name, key), name, e.may})
	}
	for _, e := range w.ears {
		e.listenEverywhere(t)
	}
	return w
}

func family(topic string) string {
	rest, _ := strings.CutPrefix(topic, "aibridge/")
	first, _, _ := strings.Cut(rest, "/")
	return first
}

// listenEverywhere subscribes to all that somebody may: to every topic as a
// whole if it may, and to what there is to ask for otherwise.
func (e *ear) listenEverywhere(t *testing.T) {
	t.Helper()
	filters := []string{
		"#", "+/#", "aibridge/#", "+/client/#", "aibridge/client/+/response", "aibridge/client/caller/response", "aibridge/client/caller-3/response",
		"aibridge/client/other/response", "aibridge/client/nobody/response", "aibridge/agent/+/request", "aibridge/agent/+/response", "aibridge/agent/+/card", "aibridge/agent/ann/request",
		"aibridge/cap/+/event", "aibridge/cap/+/data/#", "aibridge/cap/+/message/#", "aibridge/scene/+/+/event", "aibridge/task/+/event",
		"aibridge/vfs/#", "aibridge/event/#", "aibridge/event/+", "aibridge/bridge/#", "$SYS/#", "$share/steal/aibridge/client/caller/response",
		"resp/#", "/#", "aibridgex/#", "$share/steal/resp/#", "deep/#", "+", "*/#", "$share/steal/#",
	}
	granted := 0
	for _, filter := range filters {
		ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
		if _, err := e.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}); err == nil {
			granted++
			if filter == "resp/#" {
				granted += len(filters)
			}
		}
		cancel()
	}
	if granted < len(filters) {
		t.Fatalf("%s may not even listen outside the root", e.who)
	}
}

// heardNothing checks that what came so far was meant for who got it.
func (w *tenancy) heardNothing(t *testing.T) {
	t.Helper()
	w.rounds++
	for _, e := range w.ears {
		end := fmt.Sprintf("end of round %d for %s", w.rounds, e.who)
		e.Send(t, "resp/end", end) // behind all that was published before
		for {
			p := e.Next(t)
			if string(p.Payload) == end {
				break
			}
			if !strings.HasPrefix(string(p.Payload), "end of round ") && !e.may(p) {
				t.Errorf("%s hears on %s: %.300s", e.who, p.Topic, p.Payload)
			}
		}
	}
}

// everyRequest yields an envelope for every command there is, so that a new
// one is covered by being declared, and requests in the other dialects.
func everyRequest(prefix string) (ids []string, envelopes map[string]string) {
	envelopes = make(map[string]string)
	for command := range app.Commands().All() {
		id := prefix + "-" + command.Name
		ids = append(ids, id)
		timeout := 20_000
		if command.Name == "event.follow" {
			timeout = 400 // it is answered when its time is over
		}
		envelopes[id] = fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":%q,"params":%s,"metadata":{"timeout":%d,"events":true}}`,
			id, command.Name, command.Example, timeout)
	}
	for _, odd := range []struct{ name, envelope string }{
		{"unknown command", `{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":"no.such","params":{},"metadata":{}}`},
		{"malformed", `{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":"agent.list","params":[],"metadata":{}}`},
		{"unsupported version", `{"version":"9.9.9","id":%q,"timestamp":0,"type":"request","command":"agent.list","params":{},"metadata":{}}`},
		{"foreign sender", `{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":"agent.list","params":{},"metadata":{"sender_id":"bob"}}`},
		{"southbound", `{"protocol_version":"1.0","command_id":%q,"timestamp":"2026-01-01T00:00:00Z","source":"a","destination":"b","operation":"llm.query","payload":{},"metadata":{"priority":"high","timeout":5,"retry_count":0}}`},
	} {
		id := prefix + "-" + strings.ReplaceAll(odd.name, " ", "-")
		ids = append(ids, id)
		envelopes[id] = fmt.Sprintf(odd.envelope, id)
	}
	return ids, envelopes
}

// await takes messages until every request is answered, and returns the topics
// the answers came on.
func awaitAnswers(t *testing.T, ids []string, next func() (topic string, payload []byte)) map[string]bool {
	t.Helper()
	open := make(map[string]bool, len(ids))
	for _, id := range ids {
		open[id] = true
	}
	topics := make(map[string]bool)
	defer func() {
		if len(open) > 0 {
			t.Errorf("no answer to %v", slices.Collect(maps.Keys(open)))
		}
	}()
	for len(open) > 0 {
		topic, payload := next()
		var answer struct {
			ID        string          `json:"id"`
			Type      string          `json:"type"`
			CommandID string          `json:"command_id"`
			RPC       json.RawMessage `json:"jsonrpc"`
		}
		if err := json.Unmarshal(payload, &answer); err != nil || answer.Type == "event" {
			continue
		}
		topics[topic] = true
		delete(open, answer.ID)
		delete(open, answer.CommandID)
	}
	return topics
}

// TestNobodyHearsWhatAnotherTenantAsks asks every command by every door and
// with every form of Response Topic.
func TestNobodyHearsWhatAnotherTenantAsks(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	caller := w.connect("caller", w.red)
	other := w.connect("other", w.red)
	caller.Listen(t, "aibridge/client/caller/response", "resp/#", "/#", "aibridgex/#", "deep/#", "*/#")
	other.Listen(t, "aibridge/client/other/response")

	const own, blues = "aibridge/client/caller/response", "aibridge/client/ear-blue-operator-bob/response"
	caller.Listen(t, blues) // an id that is free in red, which an administrator may answer for
	for name, form := range map[string]struct {
		topic string // the Response Topic, "" for none
		hears *bridgetest.Raw
		on    string
	}{
		"none":                         {"", caller, own},
		"its own":                      {own, caller, own},
		"another client of its own":    {"aibridge/client/other/response", other, "aibridge/client/other/response"},
		"outside the root":             {"resp/ann", caller, "resp/ann"},
		"outside the root, and deep":   {"deep/a/b/c/d/e/f", caller, "deep/a/b/c/d/e/f"},
		"outside, with an empty level": {"/resp", caller, "/resp"},
		"outside, alike":               {"aibridgex/client/caller/response", caller, "aibridgex/client/caller/response"},
		"outside, with an asterisk":    {"*/a*", caller, "*/a*"},
		"another tenant's client":      {blues, caller, blues},
		"another's client here":        {"aibridge/client/ear-red-operator-amy/response", caller, own},
		"an agent's requests":          {"aibridge/agent/ann/request", caller, own},
		"an agent's answers":           {"aibridge/agent/ann/response", caller, own},
		"a card":                       {"aibridge/agent/ann/card", caller, own},
		"events":                       {"aibridge/event/agent", caller, own},
		"a channel":                    {"aibridge/cap/climate/message/x", caller, own},
		"the bridge":                   {"aibridge/bridge/request", caller, own},
		"the root":                     {"aibridge", caller, own},
		"shared":                       {"$share/steal/resp/ann", caller, own},
		"the server's":                 {"$SYS/resp", caller, own},
	} {
		t.Run("MQTT 5, "+name, func(t *testing.T) {
			ids, envelopes := everyRequest(strings.ReplaceAll(name, " ", "-"))
			rpc := strings.ReplaceAll(name, " ", "-") + "-mcp"
			send := func(to, payload string) {
				p := &paho.Publish{Topic: to, QoS: 1, Payload: []byte(payload)}
				if form.topic != "" {
					p.Properties = &paho.PublishProperties{ResponseTopic: form.topic, CorrelationData: []byte(name)}
				}
				if _, err := caller.Publish(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range ids {
				send("aibridge/bridge/request", envelopes[id])
			}
			send("aibridge/bridge/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/list"}`, rpc))
			topics := awaitAnswers(t, append(ids, rpc), func() (string, []byte) {
				select {
				case p := <-form.hears.Received:
					return p.Topic, p.Payload
				case <-time.After(bridgetest.Patience):
					t.Fatal("not everything is answered")
					return "", nil
				}
			})
			if len(topics) != 1 || !topics[form.on] {
				t.Errorf("answers came on %v, want %s", topics, form.on)
			}
			w.heardNothing(t)
		})
	}
	t.Run("MQTT 3.1.1", func(t *testing.T) {
		ids, envelopes := everyRequest("three")
		answers := make(chan mqtt3.Message, 1024)
		c := mqtt3.NewClient(mqtt3.NewClientOptions().AddBroker("tcp://" + w.MQTT).SetClientID("caller-3").SetProtocolVersion(4).
			SetAutoReconnect(false).SetUsername("apikey").SetPassword(w.red))
		done := func(token mqtt3.Token) {
			t.Helper()
			if !token.WaitTimeout(bridgetest.Patience) || token.Error() != nil {
				t.Fatal(token.Error())
			}
		}
		done(c.Connect())
		defer c.Disconnect(100)
		done(c.Subscribe("aibridge/client/caller-3/response", 1, func(_ mqtt3.Client, m mqtt3.Message) { answers <- m }))
		for _, id := range ids {
			done(c.Publish("aibridge/bridge/request", 1, false, envelopes[id]))
		}
		awaitAnswers(t, ids, func() (string, []byte) {
			select {
			case m := <-answers:
				return m.Topic(), m.Payload()
			case <-time.After(bridgetest.Patience):
				t.Fatal("not everything is answered")
				return "", nil
			}
		})
		w.heardNothing(t)
	})
	t.Run("HTTP", func(t *testing.T) {
		ids, envelopes := everyRequest("http")
		for _, id := range ids {
			post(t, w.HTTPURL("/api/v1/commands"), envelopes[id], "X-API-Key", w.red)
		}
		w.heardNothing(t)
	})
	t.Run("WebSocket", func(t *testing.T) {
		ids, envelopes := everyRequest("ws")
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == "ws-southbound" }) // is not spoken there
		ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
		defer cancel()
		c, _, err := websocket.Dial(ctx, "ws://"+w.WS+"/ws", &websocket.DialOptions{
			HTTPClient: bridgetest.HTTPClient(t), HTTPHeader: http.Header{"X-Api-Key": {w.red}}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		c.SetReadLimit(-1)
		for _, id := range ids {
			if err := c.Write(ctx, websocket.MessageText, bytes.ReplaceAll([]byte(envelopes[id]), []byte("\n"), nil)); err != nil {
				t.Fatal(err)
			}
		}
		awaitAnswers(t, ids, func() (string, []byte) {
			_, body, err := c.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return "", body
		})
		w.heardNothing(t)
	})
}

// TestTenantsCallTheirClientsAsTheyLike has two tenants with a client of one id:
// each has its session, its answers and its place in session.list, and nobody
// learns that the other is there.
func TestTenantsCallTheirClientsAsTheyLike(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ann := h.key(protocol.KindOperator, "ann", protocol.RoleOperator, `,"space_id":"red"`)
	bob := h.key(protocol.KindOperator, "bob", protocol.RoleOperator, `,"space_id":"blue"`)
	keep := func(c *paho.Connect) {
		expiry := uint32(600)
		c.CleanStart, c.Properties = false, &paho.ConnectProperties{SessionExpiryInterval: &expiry}
	}
	red := h.Caller(t, "gateway", withPassword("apikey", ann), keep)
	red.Listen(t, "news/#")
	blue := h.Caller(t, "gateway", withPassword("apikey", bob), keep)
	if blue.Connack.SessionPresent {
		t.Error("blue resumed red's session")
	}
	sessions := func(asker *bridgetest.Raw) string { return string(resultOf(t, h.ask(asker, "session.list", `{}`))) }
	for asker, other := range map[*bridgetest.Raw]string{red: `"space_id":"blue"`, blue: `"space_id":"red"`} {
		if listed := sessions(asker); !strings.Contains(listed, `"total":1`) || strings.Contains(listed, other) {
			t.Errorf("listed are %s", listed)
		}
	}
	if answer := h.ask(blue, "session.kick", `{"client_id":"gateway","space_id":"red"}`); protocol.CodeOf(errorOf(answer)) != protocol.NotFound {
		t.Errorf("blue kicks red: %v", answer.Err)
	}
	h.must("session.kick", `{"client_id":"gateway","space_id":"blue","forget":true}`)
	red.Send(t, "news/1", "still here")
	if p := red.Next(t); string(p.Payload) != "still here" {
		t.Errorf("red hears %s", p.Payload)
	}
	if code, body := h.run(h.admin, "session.get", `{"client_id":"gateway","space_id":"red"}`); code != "" || !strings.Contains(body, `"principal":"ann"`) {
		t.Errorf("the administrator sees %s", body)
	}
}
