// Package examples_test runs every example against a bridge.
package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/gobuild"
	"github.com/aibridge/aibridge/protocol"
)

// devices are the thermostats and how to start each. A command that cannot be
// had on this machine skips the test, saying why.
var devices = map[string]func(testing.TB) *exec.Cmd{
	"thermostat-go": func(t testing.TB) *exec.Cmd {
		binary := filepath.Join(t.TempDir(), "thermostat-go")
		if out, err := gobuild.Command(t.Context(), "build", "-o", binary, "./thermostat-go").CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		return exec.Command(binary)
	},
	"thermostat-python": func(t testing.TB) *exec.Cmd {
		const python = "/usr/bin/python3" // Debian's, which has Debian's paho
		if out, err := exec.Command(python, "-c", "import paho.mqtt.client").CombinedOutput(); err != nil {
			t.Skipf("python3-paho-mqtt is not installed: %v %s", err, out)
		}
		sdk, err := filepath.Abs("../sdk/python/src")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(python, "thermostat-python/thermostat.py")
		cmd.Env = append(os.Environ(), "PYTHONPATH="+sdk, "PYTHONDONTWRITEBYTECODE=1")
		return cmd
	},
	"thermostat-js": func(t testing.TB) *exec.Cmd {
		node, err := exec.LookPath("node")
		if err != nil {
			t.Skip("node is not installed")
		}
		if _, err := os.Stat("thermostat-js/node_modules/@aibridge/client"); err != nil {
			t.Skip("the SDK is not installed: run npm ci in examples/thermostat-js")
		}
		return exec.Command(node, "thermostat-js/thermostat.js")
	},
}

// start runs a device against the bridge at url. The test's end stops it, and
// it must then leave in peace.
func start(t *testing.T, name, url string) {
	t.Helper()
	startCommand(t, name, url, devices[name])
}

func startCommand(t *testing.T, name, url string, command func(testing.TB) *exec.Cmd) {
	t.Helper()
	cmd := command(t)
	cmd.Env = append(cmd.Environ(), "AIBRIDGE_URL="+url)
	var output lockedBuffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			eventually.Holds(t, name+" says that it serves", func() bool { return strings.Contains(output.String(), "serving "+name) })
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(eventually.Patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, output.String())
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type reading struct{ Celsius, Target float64 }

func invoke(c *client.Client, skill, capability string, params any) (reading, error) {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
	defer cancel()
	r, err := client.Call[struct{ Data reading }](ctx, c, "skill.invoke", map[string]any{
		"skill_id": skill, "capability_id": capability, "params": params,
	})
	return r.Data, err
}

func TestThermostatServesThroughABridge(t *testing.T) {
	for name := range devices {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := bridgetest.Start(t)
			start(t, name, node.MQTTURL())
			c := node.Dial(t)
			online := func() bool {
				_, err := invoke(c, name, "read", map[string]any{})
				return err == nil
			}
			eventually.Holds(t, name+" answers", online)

			r, err := invoke(c, name, "set_target", map[string]any{"celsius": 25.5})
			if err != nil || r.Target != 25.5 {
				t.Errorf("set_target: %+v, %v", r, err)
			}
			warmer, err := invoke(c, name, "read", map[string]any{})
			if err != nil || warmer.Target != 25.5 || warmer.Celsius <= r.Celsius {
				t.Errorf("read after %+v: %+v, %v", r, warmer, err)
			}
			_, err = invoke(c, name, "set_target", map[string]any{"celsius": 99})
			var refused *protocol.Error
			if !errors.As(err, &refused) || refused.Code != protocol.InvalidParameter || refused.Details["param_name"] != "params.celsius" {
				t.Errorf("99 °C: %v", err)
			}
			if _, err = invoke(c, name, "explode", map[string]any{}); protocol.CodeOf(err) != protocol.NotFound {
				t.Errorf("explode: %v", err)
			}

			node.Restart(t)
			eventually.Holds(t, name+" answers after a restart of the bridge", online)
		})
	}
}

// TestTheThermostatTakesItsSettings sets the highest temperature as its desired
// state, which the thermostat takes over, and keeps to.
func TestTheThermostatTakesItsSettings(t *testing.T) {
	for name := range devices {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			takesSettings(t, name)
		})
	}
}

func takesSettings(t *testing.T, name string) {
	node := bridgetest.Start(t)
	start(t, name, node.MQTTURL())
	c := node.Dial(t)
	call := func(command string, params map[string]any) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Patience)
		defer cancel()
		params["agent_id"], params["skill_id"] = name, name
		result, err := client.Call[json.RawMessage](ctx, c, command, params)
		return string(result), err
	}
	eventually.Holds(t, "its highest temperature is set", func() bool {
		_, err := call("state.desired.set", map[string]any{"state": map[string]any{"highest": 24}})
		return err == nil
	})
	eventually.Holds(t, "it reports what it has taken over", func() bool {
		state, err := call("state.get", map[string]any{})
		return err == nil && strings.Contains(state, `"in_sync":true`) && strings.Contains(state, `"reported":{"version":1,"state":{"highest":24}`)
	})
	_, err := invoke(c, name, "set_target", map[string]any{"celsius": 26})
	var refused *protocol.Error
	if !errors.As(err, &refused) || refused.Details["param_name"] != "params.celsius" {
		t.Errorf("26 °C: %v", err)
	}
	if r, err := invoke(c, name, "set_target", map[string]any{"celsius": 23}); err != nil || r.Target != 23 {
		t.Errorf("23 °C: %+v, %v", r, err)
	}
	_, err = call("state.desired.set", map[string]any{"state": map[string]any{"highest": 31}})
	if !errors.As(err, &refused) || refused.Details["param_name"] != "state.highest" {
		t.Errorf("31 °C: %v", err)
	}
}

// A bridge checks params before it asks a device. A device that gets nonsense
// all the same says precisely what is wrong with it.
func TestThermostatAnswersNonsensePrecisely(t *testing.T) {
	for name := range devices {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRawBridge(t)
			start(t, name, "mqtt://"+b.addr)
			for i, test := range []struct {
				command, params string
				code            protocol.Code
				param           any
			}{
				{"skill.invoke", `{"skill_id":"NAME","capability_id":"set_target","params":{"celsius":4.9}}`, protocol.InvalidParameter, "params.celsius"},
				{"skill.invoke", `{"skill_id":"NAME","capability_id":"set_target","params":{"celsius":"hot"}}`, protocol.InvalidParameter, "params.celsius"},
				{"skill.invoke", `{"skill_id":"NAME","capability_id":"set_target","params":{}}`, protocol.InvalidParameter, "params.celsius"},
				{"skill.invoke", `{"skill_id":"NAME","capability_id":"set_target","params":[]}`, protocol.InvalidParameter, "params"},
				{"skill.invoke", `{"skill_id":"NAME","capability_id":"explode"}`, protocol.NotFound, nil},
				{"skill.invoke", `{"skill_id":"other","capability_id":"read"}`, protocol.NotFound, nil},
				{"lamp.switch", `{}`, protocol.UnknownCommand, nil},
			} {
				r := b.ask(t, name, fmt.Sprint(i), test.command, strings.ReplaceAll(test.params, "NAME", name))
				if r.Err == nil || r.Err.Code != test.code || r.Err.Details["param_name"] != test.param || r.Metadata.TraceID != "trace" {
					t.Errorf("%s %s: %v %v", test.command, test.params, r.Err, r.Metadata)
				}
			}
		})
	}
}

// A rawBridge lets every agent register and sends it what no bridge would.
type rawBridge struct {
	*broker.Broker
	addr       string
	registered chan struct{}
	answers    chan *protocol.Response
}

type anything struct{}

func (anything) MayPublish(*broker.Client, string, bool) broker.Verdict { return broker.Verdict{} }
func (anything) MaySubscribe(*broker.Client, string) broker.Verdict     { return broker.Verdict{} }

func startRawBridge(t *testing.T) *rawBridge {
	t.Helper()
	engine, err := broker.New(broker.Options{
		Authenticate: func(context.Context, broker.Credentials) (*protocol.Principal, error) {
			return &protocol.Principal{ID: "anybody"}, nil
		},
		Permissions: anything{},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &rawBridge{Broker: engine, registered: make(chan struct{}, 10), answers: make(chan *protocol.Response, 10)}
	b.Handle("aibridge/bridge/request", func(p *broker.Publication) {
		request, err := protocol.DecodeRequest(p.Payload, protocol.Limits{})
		if err != nil {
			t.Errorf("the device sent %s: %v", p.Payload, err)
			return
		}
		response := request.Answer("bridge", time.Now())
		response.Result = json.RawMessage(`{}`)
		topic := "aibridge/client/" + p.Client.ID + "/response"
		_, _ = b.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: topic, Payload: response.Append(nil), QoS: 1, CorrelationData: p.CorrelationData})
		if strings.Contains(string(request.Params), "capabilities") {
			b.registered <- struct{}{}
		}
	})
	b.Handle("aibridge/agent/+/response", func(p *broker.Publication) {
		if r, err := protocol.DecodeResponse(p.Payload, protocol.Limits{}); err != nil {
			t.Errorf("the device answered %s: %v", p.Payload, err)
		} else {
			b.answers <- r
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.addr = l.Addr().String()
	go func() { _ = b.Serve(context.Background(), "mqtt", l) }()
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

func (b *rawBridge) ask(t *testing.T, agent, id, command, params string) *protocol.Response {
	t.Helper()
	b.send(t, agent, id, command, params)
	return b.answer(t, id)
}

func (b *rawBridge) send(t *testing.T, agent, id, command, params string) {
	t.Helper()
	if id == "0" {
		<-b.registered
	}
	request := protocol.Request{ID: id, Timestamp: time.Now().UnixMilli(), Command: command, Params: []byte(params)}
	request.Metadata.TraceID = "trace"
	eventually.Holds(t, agent+" listens", func() bool {
		n, err := b.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: "aibridge/agent/" + agent + "/request", Payload: request.Append(nil), QoS: 1, CorrelationData: []byte(id)})
		return err == nil && n == 1
	})
}

func (b *rawBridge) answer(t *testing.T, id string) *protocol.Response {
	t.Helper()
	select {
	case r := <-b.answers:
		if r.ID != id {
			t.Fatalf("answer to %s, want %s", r.ID, id)
		}
		return r
	case <-time.After(bridgetest.Patience):
		t.Fatal("no answer")
		return nil
	}
}

// TestABridgeOfOnesOwn has the module that embeds the bridge test itself: it may
// use nothing but what other modules may.
func TestABridgeOfOnesOwn(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"vet", "./..."}, {"test", "./..."}} {
		cmd := gobuild.Command(t.Context(), args...)
		cmd.Dir = "own-bridge"
		cmd.Env = append(cmd.Env, "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
