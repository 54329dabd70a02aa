package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// together starts a bridge that works beside others, with the secrets of one of
// them.
func together(t testing.TB, url, id string, with *bridgetest.Node) *bridgetest.Node {
	t.Helper()
	return bridgetest.Start(t, beside(t, url, id, with))
}

func beside(t testing.TB, url, id string, with *bridgetest.Node) func(*app.Config) {
	t.Helper()
	return func(c *app.Config) {
		c.NATS.URL, c.ID, c.Cluster.Working = url, id, "all"
		if with == nil {
			return
		}
		for _, file := range []string{"pepper", "ca.key", "seal.key"} {
			secret, err := os.ReadFile(filepath.Join(with.Config.Data, file))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(c.Data, file), secret, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// seen is a member as bridge.cluster shows it.
type seen struct {
	ID        string            `json:"id"`
	Epoch     uint64            `json:"epoch"`
	State     string            `json:"state"`
	Ready     bool              `json:"ready"`
	Addresses map[string]string `json:"addresses"`
}

func members(t *testing.T, c *bridgetest.Raw) []seen {
	t.Helper()
	var result struct {
		Members []seen `json:"members"`
	}
	if err := json.Unmarshal(must(t, c, "bridge.cluster", `{}`), &result); err != nil {
		t.Fatal(err)
	}
	return result.Members
}

func state(t *testing.T, c *bridgetest.Raw, task string) string {
	t.Helper()
	return field(t, must(t, c, "task.get", fmt.Sprintf(`{"task_id":%q}`, task)), "state")
}

// startSlowly starts a task that has minutes.
func startSlowly(t *testing.T, c *bridgetest.Raw) (task string) {
	t.Helper()
	request := bridgetest.Request(protocol.NewID(), "skill.invoke", `{"skill_id":"slow","capability_id":"wait","async":true}`)
	answer := c.Ask(t, strings.Replace(request, `"metadata":{}`, `"metadata":{"timeout":300000}`, 1))
	if answer.Err != nil {
		t.Fatal(answer.Err)
	}
	return field(t, answer.Result, "task_id")
}

func TestBridgesThatWorkTogetherLeaveAloneWhatIsTheOthers(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	onA := a.Caller(t, "caller")
	must(t, onA, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`)
	device := a.Device(t, "slow-1", "slow", `["wait"]`)
	running := startSlowly(t, onA)
	call := device.Invocation(t)

	b := together(t, url, "b", a)
	onB := b.Caller(t, "caller-b")
	eventually.Holds(t, "both know both", func() bool {
		for _, c := range []*bridgetest.Raw{onA, onB} {
			all := members(t, c)
			if len(all) != 2 || all[0].ID != "a" || all[1].ID != "b" || !all[0].Ready || !all[1].Ready || all[1].Addresses["mqtt"] != b.MQTT {
				return false
			}
		}
		return true
	})
	must(t, onB, "agent.get", `{"agent_id":"lamp"}`)
	if got := state(t, onB, running); got != "running" {
		t.Errorf("the start of another bridge made a task %s", got)
	}

	// The journals are apart: a session that is kept on each stays what it is
	// when the other bridge starts anew.
	kept := func(c *paho.Connect) {
		c.CleanStart = false
		expiry := uint32(3600)
		c.Properties = &paho.ConnectProperties{SessionExpiryInterval: &expiry}
	}
	for _, n := range []*bridgetest.Node{a, b} {
		sleeper := n.Connect(t, "sleeper-"+n.Config.ID, kept)
		sleeper.Listen(t, "news")
		sleeper.Drop()
	}
	b.Restart(t)
	onB = b.Caller(t, "caller-b")
	for name, c := range map[string]*bridgetest.Raw{"a": onA, "b": onB} {
		if at := serverOf(t, c, "sleeper-"+name); at != name {
			t.Errorf("the session of a client of %s is at %q", name, at)
		}
		if got := state(t, c, running); got != "running" {
			t.Errorf("after another bridge started anew, %s says that the task is %s", name, got)
		}
	}
	readiness(t, a, 200, "ready")
	device.Reply(t, "slow-1", call, map[string]any{})
	eventually.Holds(t, "the task ends", func() bool { return state(t, onB, running) == "succeeded" })
}

// TestTheOldestBridgeFailsTheTasksOfOneThatDied starts a task on a bridge that is
// then declared dead.
func TestTheOldestBridgeFailsTheTasksOfOneThatDied(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	b := together(t, url, "b", a)
	b.Device(t, "slow-1", "slow", `["wait"]`)
	onB := b.Caller(t, "caller-b")
	running := startSlowly(t, onB)
	onA := a.Caller(t, "caller")
	eventually.Holds(t, "the other bridge knows the task", func() bool { return state(t, onA, running) == "running" })
	verdict(t, url, "b")
	if err := b.Ended(t); protocol.CodeOf(err) != protocol.StoreUnavailable || !strings.Contains(err.Error(), `declared dead by bridge "observer"`) {
		t.Errorf("the bridge that was declared dead ended with %v", err)
	}
	eventually.Holds(t, "the task has failed", func() bool { return state(t, onA, running) == "failed" })
}

// jetStream is the store of bridges, read and written by a test.
func jetStream(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// verdict declares a bridge dead.
func verdict(t testing.TB, url, id string) {
	t.Helper()
	if _, err := jetStream(t, url).Publish(t.Context(), "aibridge.cluster.node."+id, fmt.Appendf(nil, `{"v":1,"id":%q,"epoch":99,"state":"dead","by":"observer"}`, id)); err != nil {
		t.Fatal(err)
	}
}

func TestABridgeThatDoesNotFitDoesNotStart(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := together(t, url, "a", nil)
	for name, test := range map[string]struct {
		change func(*app.Config)
		says   []string
	}{
		"other keys":     {beside(t, url, "b", nil), []string{`"a"`, "ca.key, pepper, seal.key in the data folder differ", "copy ca.key, pepper, seal.key from that bridge"}},
		"other working":  {func(c *app.Config) { beside(t, url, "b", a)(c); c.Cluster.Working = "one" }, []string{`cluster.working is "all" there and "one" here`}},
		"other replicas": {func(c *app.Config) { beside(t, url, "b", a)(c); c.NATS.Replicas = 3 }, []string{`nats.replicas is "1" there and "3" here`}},
	} {
		t.Run(name, func(t *testing.T) {
			config := app.DefaultConfig()
			config.Data, config.Dev = t.TempDir(), true
			config.HTTP, config.MQTT.Address, config.WS, config.MQTTS = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "off"
			test.change(&config)
			_, err := app.New(t.Context(), config)
			if protocol.CodeOf(err) != protocol.StoreUnavailable {
				t.Fatal(err)
			}
			for _, word := range test.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q lacks %q", err, word)
				}
			}
		})
	}
	if all := members(t, a.Caller(t, "caller")); len(all) != 1 {
		t.Errorf("members are %+v", all)
	}
}
