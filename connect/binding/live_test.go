package binding_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A house is a bridge with a binding file, and somebody who calls.
type house struct {
	*bridgetest.Node
	file   string
	caller *bridgetest.Raw
}

func newHouse(t *testing.T, text string) *house {
	t.Helper()
	h := &house{file: filepath.Join(t.TempDir(), "lamp.yaml")}
	if err := os.WriteFile(h.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Node = bridgetest.Start(t, func(c *app.Config) { c.Connect.Bindings = h.file })
	h.caller = h.Caller(t, "caller")
	return h
}

// run runs a command and yields its result, or the code of its error.
func (h *house) run(t *testing.T, command, params string) (result map[string]any, code protocol.Code) {
	t.Helper()
	answer := h.caller.Ask(t, bridgetest.Request(protocol.NewID(), command, params))
	if answer.Err != nil {
		return map[string]any{"message": answer.Err.Message}, answer.Err.Code
	}
	if err := json.Unmarshal(answer.Result, &result); err != nil {
		t.Fatal(err)
	}
	return result, ""
}

func (h *house) invoke(t *testing.T, capability, params string) (data map[string]any, code protocol.Code) {
	t.Helper()
	result, code := h.run(t, "skill.invoke", fmt.Sprintf(`{"skill_id":"desk-lamp","capability_id":%q,"params":%s}`, capability, params))
	if code != "" {
		return result, code
	}
	data, _ = result["data"].(map[string]any)
	return data, ""
}

// status is whether the lamp is there, "" if nobody knows it.
func (h *house) status(t *testing.T) string {
	t.Helper()
	result, _ := h.run(t, "agent.get", `{"agent_id":"desk-lamp"}`)
	status, _ := result["status"].(string)
	return status
}

func (h *house) becomes(t *testing.T, status string) {
	t.Helper()
	eventually.Holds(t, "the lamp is "+status, func() bool { return h.status(t) == status })
}

// A plainLamp speaks plain MQTT.
type plainLamp struct {
	*bridgetest.Raw
}

func (h *house) plug(t *testing.T) *plainLamp {
	t.Helper()
	l := &plainLamp{h.Connect(t, "lamp", func(c *paho.Connect) {
		c.WillMessage = &paho.WillMessage{Topic: "lamps/desk/online", Payload: []byte("0"), Retain: true, QoS: 1}
	})}
	l.Listen(t, "lamps/desk/set")
	l.retain(t, "lamps/desk/online", "1")
	return l
}

func (l *plainLamp) retain(t *testing.T, topic, payload string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	if _, err := l.Publish(ctx, &paho.Publish{Topic: topic, QoS: 1, Retain: true, Payload: []byte(payload)}); err != nil {
		t.Fatal(err)
	}
}

func TestAPlainLampIsAnAgent(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lamp)
	eventually.Holds(t, "the skill of a lamp that is away is there", func() bool {
		_, code := h.invoke(t, "set", `{"on":true}`)
		return code == protocol.AgentOffline
	})
	l := h.plug(t)
	h.becomes(t, "online")
	if data, code := h.invoke(t, "state", `{}`); code != protocol.TargetUnavailable {
		t.Errorf("a lamp that has said nothing: %v %s", data, code)
	}

	answered := make(chan string, 1)
	go func() {
		asked := <-l.Received
		l.Send(t, "lamps/desk/state", `{"state":"ON","light":{"level":40}}`)
		answered <- string(asked.Payload)
	}()
	data, code := h.invoke(t, "set", `{"on":true,"brightness":40}`)
	state, _ := data["state"].(map[string]any)
	if code != "" || data["confirmed"] != true || state["on"] != true || state["brightness"] != 40.0 {
		t.Errorf("%v %s", data, code)
	}
	if got := <-answered; !same([]byte(got), `{"state":"ON","level":40}`) {
		t.Error(got)
	}
	if data, code := h.invoke(t, "state", `{}`); code != "" || data["on"] != true || data["updated_at"] == nil {
		t.Errorf("%v %s", data, code)
	}
	if result, code := h.invoke(t, "set", `{"on":"yes"}`); code != protocol.InvalidParameter {
		t.Errorf("%v %s", result, code)
	}

	l.Drop() // its Will says that it is away
	h.becomes(t, "offline")
	if _, code := h.invoke(t, "set", `{"on":true}`); code != protocol.AgentOffline {
		t.Errorf("a lamp without power: %s", code)
	}
}

func TestNobodyWhoListensIsSaidSo(t *testing.T) {
	t.Parallel()
	h := newHouse(t, strings.Replace(lamp, "presence: {topic: lamps/desk/online, online: 1, offline: 0}", "", 1))
	h.becomes(t, "online")
	if result, code := h.invoke(t, "set", `{"on":true}`); code != protocol.TargetUnavailable {
		t.Errorf("%v %s", result, code)
	}
}

func TestADeviceThatDoesNotAnswerTimesOut(t *testing.T) {
	t.Parallel()
	h := newHouse(t, strings.Replace(lamp, "timeout: 1m", "timeout: 1ms", 1))
	h.plug(t)
	h.becomes(t, "online")
	if result, code := h.invoke(t, "set", `{"on":true}`); code != protocol.TimedOut {
		t.Errorf("%v %s", result, code)
	}
}

func TestALampStaysOverARestart(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lamp)
	l := h.plug(t)
	l.retain(t, "lamps/desk/state", `{"state":"OFF","light":{"level":3}}`)
	h.becomes(t, "online")
	h.Restart(t)
	h.caller = h.Caller(t, "caller-2")
	h.plug(t) // its connection has ended with the bridge
	eventually.Holds(t, "the state is read again", func() bool {
		data, code := h.invoke(t, "state", `{}`)
		return code == "" && data["on"] == false && data["brightness"] == 3.0
	})
}

func TestFilesAreFollowed(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lamp)
	h.plug(t)
	h.becomes(t, "online")

	bridgetest.Write(t, h.file, lamp+"\nnonsense: 1\n")
	bridgetest.Write(t, h.file, strings.Replace(lamp, "          set:", "          switch:", 1))
	eventually.Holds(t, "the new capability is there, and the old one is not", func() bool {
		_, old := h.invoke(t, "set", `{"on":"wrong"}`)
		_, fresh := h.invoke(t, "switch", `{"on":"wrong"}`)
		return old == protocol.NotFound && fresh == protocol.InvalidParameter
	})
	h.becomes(t, "online")

	bridgetest.Write(t, h.file, "devices: []\n")
	h.becomes(t, "")
}

// A journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) says(what string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), what)
}

func TestAFileThatIsWrongChangesNothingAndIsNamed(t *testing.T) {
	t.Parallel()
	h := &house{file: filepath.Join(t.TempDir(), "lamp.yaml")}
	bridgetest.Write(t, h.file, lamp)
	log := new(journal)
	h.Node = bridgetest.StartWith(t, []app.Option{app.WithLogger(slog.New(slog.NewTextHandler(log, nil)))}, func(c *app.Config) { c.Connect.Bindings = h.file })
	h.caller = h.Caller(t, "caller")
	h.plug(t)
	h.becomes(t, "online")
	bridgetest.Write(t, h.file, strings.Replace(lamp, "path: state,", "pth: state,", 1))
	eventually.Holds(t, "the log names the fault", func() bool {
		return log.says("lamp.yaml:11: devices[0].skills[0].state.on.pth: there is no such key")
	})
	if got := h.status(t); got != "online" {
		t.Errorf("the lamp is %s", got)
	}
	if result, code := h.invoke(t, "set", `{"on":"wrong"}`); code != protocol.InvalidParameter {
		t.Errorf("%v %s", result, code)
	}
}

func TestWhatIsDescribedNoMoreGoesOverARestart(t *testing.T) {
	t.Parallel()
	h := newHouse(t, lamp)
	h.becomes(t, "offline")
	h.Stop(t)
	bridgetest.Write(t, h.file, strings.ReplaceAll(lamp, "desk-lamp", "other-lamp"))
	h.Restart(t)
	h.caller = h.Caller(t, "caller-2")
	h.becomes(t, "")
	eventually.Holds(t, "the other lamp is there", func() bool {
		_, code := h.run(t, "agent.get", `{"agent_id":"other-lamp"}`)
		return code == ""
	})
}

func TestABridgeDoesNotStartWithAFileThatIsWrong(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(file, []byte("devices:\n  - {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := app.DefaultConfig()
	config.Data, config.Dev = t.TempDir(), true
	config.MQTT.Address, config.MQTTS, config.HTTP, config.WS = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	config.Connect.Bindings = file
	if _, err := app.New(t.Context(), config); err == nil || !strings.Contains(err.Error(), "wrong.yaml:2: devices[0].agent") {
		t.Error(err)
	}
}
