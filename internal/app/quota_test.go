package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/quota"
)

// metric reads one series from /metrics.
func (h *house) metric(series string) float64 {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.HTTPURL("/metrics"), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	request.Header.Set("X-Api-Key", h.admin)
	response, err := bridgetest.HTTPClient(h.t).Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				h.t.Fatal(err)
			}
			return n
		}
	}
	h.t.Fatalf("there is no %s in /metrics", series)
	return 0
}

func TestWhoAsksTooOftenIsToldWhenToComeBackByEveryDoor(t *testing.T) {
	h := newHouse(t, func(c *app.Config) { c.Quotas.Principal.Requests = 3 })
	lamp, fan := h.key(protocol.KindAgent, "lamp", "end_agent"), h.key(protocol.KindAgent, "fan", "end_agent")
	var refused string
	n := 0
	for refused == "" && n < 1000 { // one second's worth, and what became free meanwhile on a slow machine
		code, body := h.run(lamp, "agent.list", `{}`)
		if code == "" {
			n++
			continue
		}
		if code != protocol.RateLimited {
			t.Fatalf("answered %s", body)
		}
		refused = body
	}
	if n < 3 || refused == "" {
		t.Fatalf("%d passed, refused was %q", n, refused)
	}
	var answer struct {
		Error struct {
			Details struct {
				RetryAfter int    `json:"retry_after_ms"`
				Limit      string `json:"limit"`
			} `json:"details"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(refused), &answer); err != nil || answer.Error.Details.RetryAfter < 1 || answer.Error.Details.RetryAfter > 1000 || answer.Error.Details.Limit != "requests" {
		t.Errorf("refused with %s", refused)
	}
	// The same principal's other doors are the same account; others have theirs.
	device := h.connect("lamp", lamp)
	limited := false
	for n := 0; !limited && n < 1000; n++ {
		if answer := h.ask(device, "agent.list", `{}`); answer.Err != nil && answer.Err.Code == protocol.RateLimited {
			limited = true
		}
	}
	if !limited {
		t.Error("the device was never refused over MQTT")
	}
	if code, body := h.run(fan, "agent.list", `{}`); code != "" {
		t.Errorf("another device: %s", body)
	}
	if got := h.metric(`aibridge_quota_refusals_total{limit="requests",of="principal"}`); got < 2 {
		t.Errorf("metrics count %v refusals", got)
	}
}

func TestNobodyHasMoreConnectionsThanItMay(t *testing.T) {
	h := newHouse(t, func(c *app.Config) { c.Quotas.Principal.Connections = 2 })
	key := h.key(protocol.KindAgent, "lamp", "end_agent")
	dial := func() (*websocket.Conn, int) {
		conn, response, err := websocket.Dial(t.Context(), "ws://"+h.WS+"/ws", &websocket.DialOptions{
			HTTPClient: bridgetest.HTTPClient(t), HTTPHeader: http.Header{"X-Api-Key": {key}},
		})
		if err != nil && response == nil {
			t.Fatal(err)
		}
		if conn != nil {
			t.Cleanup(func() { _ = conn.CloseNow() })
		}
		return conn, response.StatusCode
	}
	first, _ := dial()
	if _, status := dial(); first == nil || status != http.StatusSwitchingProtocols {
		t.Fatalf("the second connection: %d", status)
	}
	if _, status := dial(); status != http.StatusTooManyRequests {
		t.Errorf("the third connection: %d, want 429", status)
	}
	_ = first.CloseNow()
	eventually.Holds(t, "a connection after one ended", func() bool { _, status := dial(); return status == http.StatusSwitchingProtocols })
}

func TestMQTTClientsKeepToTheirQuotas(t *testing.T) {
	h := newHouse(t, func(c *app.Config) {
		c.Quotas.Principal = quota.Bounds{Messages: 5, Connections: 2, Retained: 1}
		c.Quotas.Space.Retained = 2
	})
	lamp, fan := h.key(protocol.KindAgent, "lamp", "end_agent"), h.key(protocol.KindAgent, "fan", "end_agent")
	const quotaExceeded = 0x97
	first, second := h.connect("lamp-1", lamp), h.connect("lamp-2", lamp)

	third, err := h.TryConnect(t, "lamp-3", withPassword("apikey", lamp))
	if err == nil || third.Connack == nil || third.Connack.ReasonCode != quotaExceeded {
		t.Errorf("a third connection: %v, %+v, want quota exceeded", err, third.Connack)
	}
	second = h.connect("lamp-2", lamp) // in place of the one it had
	publish := func(r *bridgetest.Raw, topic string, retain bool) byte {
		ack, err := r.Publish(t.Context(), &paho.Publish{Topic: topic, QoS: 1, Retain: retain, Payload: []byte("x")})
		if ack == nil {
			t.Fatalf("publish to %s: %v", topic, err)
		}
		return ack.ReasonCode
	}
	refused := 0
	for n := 0; refused == 0 && n < 1000; n++ {
		if publish(first, "news", false) == quotaExceeded {
			refused++
		}
	}
	if refused == 0 {
		t.Error("none of a thousand messages at once was refused")
	}
	if code := publish(h.connect("fan", fan), "kept/fan", true); code == quotaExceeded {
		t.Error("another principal's message was refused")
	}
	eventually.Holds(t, "a message is retained once messages may be sent again", func() bool {
		return publish(second, "kept/1", true) != quotaExceeded
	})
	count := func(whose string) float64 {
		return h.metric(`aibridge_quota_refusals_total{limit="retained",of="` + whose + `"}`)
	}
	eventually.Holds(t, "one retained message more is refused", func() bool {
		return publish(second, "kept/2", true) == quotaExceeded && count("principal") > 0
	})
	eventually.Holds(t, "one retained message more than the space may have is refused", func() bool {
		key := h.key(protocol.KindAgent, "bell", "end_agent")
		bell, err := h.TryConnect(t, "bell", withPassword("apikey", key))
		return err == nil && publish(bell, "kept/3", true) == quotaExceeded && count("space") > 0
	})
	for series, what := range map[string]string{
		`aibridge_quota_refusals_total{limit="connections",of="principal"}`: "connections",
		`aibridge_quota_refusals_total{limit="messages",of="principal"}`:    "messages",
	} {
		if h.metric(series) == 0 {
			t.Errorf("no refusals of %s are counted", what)
		}
	}
}

func TestWhatOneHasRegisteredIsBoundedWhateverItIs(t *testing.T) {
	h := newHouse(t, func(c *app.Config) { c.Quotas.Principal.Records = 3 })
	lamp, fan := h.key(protocol.KindAgent, "lamp", "end_agent"), h.key(protocol.KindAgent, "fan", "end_agent")
	const skill = `{"skill":{"skill_id":"%","name":"n","capabilities":["c"]}}`
	must := func(key, command, params string) {
		t.Helper()
		if code, body := h.run(key, command, params); code != "" {
			t.Fatalf("%s: %s", command, body)
		}
	}
	must(lamp, "agent.register", `{"agent_id":"lamp","name":"n","type":"end_agent"}`)
	for _, id := range []string{"one", "two"} {
		must(lamp, "skill.register", strings.Replace(skill, "%", id, 1))
	}
	code, body := h.run(lamp, "skill.register", strings.Replace(skill, "%", "three", 1))
	if code != protocol.LimitReached || !strings.Contains(body, `"limit":"records"`) {
		t.Errorf("a fourth record: %s", body)
	}
	if code, body := h.run(lamp, "resource.register", `{"resource":{"resource_id":"r","name":"n","type":"device"}}`); code != protocol.LimitReached {
		t.Errorf("of another kind: %s", body)
	}
	must(lamp, "skill.register", strings.Replace(strings.Replace(skill, "%", "two", 1), `"n"`, `"another name"`, 1))
	must(fan, "agent.register", `{"agent_id":"fan","name":"n","type":"end_agent"}`)
	must(lamp, "skill.unregister", `{"skill_id":"one"}`)
	must(lamp, "skill.register", strings.Replace(skill, "%", "three", 1))
	if n := h.metric(`aibridge_quota_refusals_total{limit="records",of="principal"}`); n != 2 {
		t.Errorf("%v refusals, want 2", n)
	}
}
