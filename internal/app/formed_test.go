package app_test

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

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/clusterkey"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/freeport"
	"github.com/aibridge/aibridge/protocol"
)

// formed is the configuration of the n-th bridge of a cluster that bridges form.
func formed(join []string, key string, n int, listen string) func(*app.Config) {
	return func(c *app.Config) {
		c.ID, c.Cluster.Working = fmt.Sprint("b", n), "all"
		c.Cluster.Join, c.Cluster.Listen, c.Cluster.Key = join, listen, key
	}
}

// keyFile is the key of a cluster that begins with the bridge that has its data in
// a folder.
func keyFile(t *testing.T, data string) string {
	t.Helper()
	key, err := clusterkey.New(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "home.key")
	bridgetest.Write(t, path, string(text))
	return path
}

// startAll starts the bridges of a cluster, which wait for each other.
func startAll(t *testing.T, change ...func(*app.Config)) []*bridgetest.Node {
	t.Helper()
	nodes := make([]*bridgetest.Node, len(change))
	var all sync.WaitGroup
	for n := range change {
		all.Go(func() { nodes[n] = bridgetest.Start(t, change[n]) })
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() {
		for _, node := range nodes { // the last ones have no majority to tell that they end
			all.Go(func() { _ = node.End(t) })
		}
		all.Wait()
	})
	return nodes
}

// TestABridgeGrowsToACluster takes a bridge that was alone, with what it has, into
// a cluster of three that need no NATS, and has a fourth join.
func TestABridgeGrowsToACluster(t *testing.T) {
	alone := bridgetest.Start(t, func(c *app.Config) { c.ID = "b0" })
	c := alone.Caller(t, "caller")
	must(t, c, "cap.declare", `{"cap_id":"home","skill_id":"lamp","cap_name":"Home"}`)
	keeper := alone.Connect(t, "keeper", kept)
	keeper.Listen(t, "door/#")
	keeper.Drop()
	c.Send(t, "door/front", "open")
	alone.Stop(t)

	join := freeport.Addresses(4)
	further, join := join[3], join[:3]
	key := keyFile(t, alone.Config.Data)
	nodes := startAll(t,
		func(c *app.Config) { c.Data = alone.Config.Data; formed(join, key, 0, join[0])(c) },
		formed(join, key, 1, join[1]), formed(join, key, 2, join[2]),
	)
	third := nodes[2].Caller(t, "caller")
	if caps := string(must(t, third, "cap.query", `{}`)); !strings.Contains(caps, `"home"`) {
		t.Errorf("the third bridge has the Caps %s", caps)
	}
	if got := nodes[0].Connect(t, "keeper", kept).Next(t); string(got.Payload) != "open" {
		t.Errorf("the session that was kept got %q", got.Payload)
	}
	listener := nodes[1].Connect(t, "listener")
	listener.Listen(t, "hall/#")
	third.Send(t, "hall/light", "on")
	if got := listener.Next(t); string(got.Payload) != "on" {
		t.Errorf("heard %q", got.Payload)
	}
	must(t, third, "secret.rotate", `{"secret":"seal_key"}`)
	fourth := bridgetest.Start(t, formed(join, key, 3, further)) // whose key has the version before
	must(t, fourth.Caller(t, "other"), "cap.query", `{}`)
	held := func(n *bridgetest.Node) string {
		key, err := os.ReadFile(filepath.Join(n.Config.Data, "seal.key"))
		if err != nil {
			t.Fatal(err)
		}
		return string(key)
	}
	eventually.Holds(t, "the further bridge has the next seal.key", func() bool {
		first, err := clusterkey.Read(key)
		return err == nil && held(fourth) == held(nodes[0]) && held(fourth) != string(first.Secrets["seal.key"])
	})

	for name, test := range map[string]struct {
		change func(*app.Config)
		want   string
	}{
		"a state of its own": {func(c *app.Config) {
			formed(join, key, 4, freeport.Address())(c)
			if err := os.MkdirAll(filepath.Join(c.Data, "nats"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "the cluster has a state, and this bridge one of its own"},
		"secrets of its own": {func(c *app.Config) {
			formed(join, key, 4, freeport.Address())(c)
			bridgetest.Write(t, filepath.Join(c.Data, "pepper"), strings.Repeat("p", 32))
		}, "has a pepper of its own"},
		"alone again": {func(c *app.Config) { c.Data = alone.Config.Data }, `was moved into the cluster "aibridge"`},
	} {
		if err := refused(t, test.change); !strings.Contains(err, test.want) {
			t.Errorf("%s: %s, want %q", name, err, test.want)
		}
	}
}

// TestTheFirstOfAClusterMakesTheAdministratorsKey starts three bridges that have
// nothing yet: one makes the key, always the same one, and all know it.
func TestTheFirstOfAClusterMakesTheAdministratorsKey(t *testing.T) {
	t.Parallel()
	join := freeport.Addresses(3)
	key := keyFile(t, "")
	strict := func(n int) func(*app.Config) {
		return func(c *app.Config) { formed(join, key, n, join[n])(c); c.Dev = false }
	}
	nodes := startAll(t, strict(0), strict(1), strict(2))
	for n, node := range nodes {
		_, err := os.Stat(filepath.Join(node.Config.Data, app.AdminKeyFile))
		if made := err == nil; made != (n == 0) {
			t.Errorf("b%d has an administrator's key: %t", n, made)
		}
	}
	admin, err := os.ReadFile(filepath.Join(nodes[0].Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	third := nodes[2].Dial(t, client.WithAPIKey(strings.TrimSpace(string(admin))))
	keys, err := client.Call[struct{ Keys []json.RawMessage }](t.Context(), third, "key.list", nil)
	if err != nil || len(keys.Keys) != 1 {
		t.Errorf("%s, %v", keys.Keys, err)
	}
}

// refused is the reason why a bridge does not start.
func refused(t *testing.T, change func(*app.Config)) string {
	t.Helper()
	config := app.DefaultConfig()
	config.Data, config.Dev = t.TempDir(), true
	config.MQTT.Address, config.MQTTS, config.HTTP, config.WS = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	change(&config)
	ctx, cancel := context.WithTimeout(t.Context(), bridgetest.Patience)
	defer cancel()
	bridge, err := app.New(ctx, config, app.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil {
		ended, end := context.WithCancel(t.Context())
		end()
		_ = bridge.Run(ended)
		return "it started"
	}
	return err.Error()
}

// TestAClusterOutlivesOneOfThree stops the bridge that has begun the cluster, and
// has it come back.
func TestAClusterOutlivesOneOfThree(t *testing.T) {
	join := freeport.Addresses(3)
	key := keyFile(t, "")
	nodes := startAll(t, formed(join, key, 0, join[0]), formed(join, key, 1, join[1]), formed(join, key, 2, join[2]))
	c := nodes[1].Caller(t, "caller")
	must(t, c, "cap.declare", `{"cap_id":"before","skill_id":"lamp","cap_name":"Before"}`)
	nodes[0].Stop(t)
	eventually.Holds(t, "the others store what comes", func() bool {
		return c.Ask(t, bridgetest.Request(protocol.NewID(), "cap.declare", `{"cap_id":"after","skill_id":"lamp","cap_name":"After"}`)).Err == nil
	})
	nodes[0].Restart(t)
	back := nodes[0].Caller(t, "caller")
	for _, id := range []string{"before", "after"} {
		if caps := string(must(t, back, "cap.query", `{}`)); !strings.Contains(caps, `"`+id+`"`) {
			t.Errorf("the bridge that came back has the Caps %s", caps)
		}
	}
}

// TestDrainingDoesNotCostTheMajority asks for the end of a second bridge of three,
// and then stops it as a supervisor would.
func TestDrainingDoesNotCostTheMajority(t *testing.T) {
	join := freeport.Addresses(3)
	key := keyFile(t, "")
	nodes := startAll(t, formed(join, key, 0, join[0]), formed(join, key, 1, join[1]), formed(join, key, 2, join[2]))
	c := nodes[0].Caller(t, "caller")
	know(t, c, 3)
	if answer := drain(t, c, "b2"); answer.Err != nil {
		t.Fatal(answer.Err)
	}
	if err := nodes[2].Ended(t); err != nil {
		t.Errorf("the first one that was asked ended with %v", err)
	}
	eventually.Holds(t, "the others store what comes", func() bool {
		return c.Ask(t, bridgetest.Request(protocol.NewID(), "cap.declare", `{"cap_id":"after","skill_id":"lamp","cap_name":"After"}`)).Err == nil
	})
	for _, id := range []string{"b1", "b0"} {
		isRefused(t, drainOnceLed(t, c, id), protocol.InvalidState, "most of the 3 bridges of cluster.join would be away")
	}
	know(t, c, 2)
	nodes[1].Stop(t)
}

// drainOnceLed asks for the end of a bridge until the store answers: the servers of
// a cluster that lost one elect a leader for each stream.
func drainOnceLed(t *testing.T, c *bridgetest.Raw, id string) (answer *protocol.Response) {
	t.Helper()
	eventually.Holds(t, "the store answers", func() bool {
		answer = drain(t, c, id)
		return answer.Err == nil || answer.Err.Code != protocol.StoreUnavailable
	})
	return answer
}
