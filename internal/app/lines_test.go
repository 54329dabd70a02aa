package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/freeport"
)

// A gate leads to an address as long as it is open.
type gate struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	shut     bool
	through  map[net.Conn]bool
	carrying sync.WaitGroup
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, to: to, through: make(map[net.Conn]bool)}
	g.carrying.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.carrying.Go(func() { g.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		g.close(true)
		g.carrying.Wait()
	})
	return g
}

func (g *gate) carry(here net.Conn) {
	defer here.Close()
	there, err := net.Dial("tcp", g.to)
	if err != nil {
		return
	}
	defer there.Close()
	if !g.enter(here, there) {
		return
	}
	g.carrying.Go(func() {
		defer here.Close()
		_, _ = io.Copy(here, there)
	})
	_, _ = io.Copy(there, here)
}

func (g *gate) enter(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		g.through[c] = true
	}
	return !g.shut
}

// close has nothing come through, or everything again.
func (g *gate) close(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	if shut {
		for c := range g.through {
			_ = c.Close()
		}
		clear(g.through)
	}
}

// ways are the ways of messages from a bridge to the others, by id.
func ways(t *testing.T, c *bridgetest.Raw) map[string]way {
	t.Helper()
	var result struct {
		Peers []struct {
			ID string `json:"bridge_id"`
			way
		} `json:"peers"`
	}
	if err := json.Unmarshal(must(t, c, "bridge.cluster", `{}`), &result); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]way)
	for _, p := range result.Peers {
		all[p.ID] = p.way
	}
	return all
}

type way struct {
	By       string `json:"by"`
	Address  string `json:"address"`
	Why      string `json:"why"`
	Open     bool   `json:"open"`
	ServedBy string `json:"served_by"`
}

// TestADeadBridgeIsShownWithWhoServesItsSessions kills a bridge that has a kept session,
// so that messages for it flow on, to another bridge.
func TestADeadBridgeIsShownWithWhoServesItsSessions(t *testing.T) {
	t.Parallel()
	url, n := three(t)
	sleeper := n[2].Connect(t, "sleeper", kept)
	sleeper.Listen(t, "news")
	sleeper.Drop()
	asker := n[0].Caller(t, "asker")
	if c := ways(t, asker)["c"]; !c.Open || c.ServedBy != "" {
		t.Errorf("of a bridge that lives it is shown %+v", c)
	}
	verdict(t, url, "c")
	_ = n[2].Ended(t)
	var c way
	eventually.Holds(t, "another bridge serves its sessions", func() bool {
		c = ways(t, asker)["c"]
		return c.Open && (c.ServedBy == "a" || c.ServedBy == "b")
	}, &c)
	n[2].Restart(t)
	eventually.Holds(t, "it serves them itself", func() bool {
		c = ways(t, asker)["c"]
		return c.Open && c.ServedBy == ""
	}, &c)
}

// TestMessagesGoDirectlyBetweenBridgesThatListen cuts the line of two bridges while
// one client publishes at the one and another listens at the other, and mends it. A
// third bridge has no line with them.
func TestMessagesGoDirectlyBetweenBridgesThatListen(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	at := freeport.Addresses(2)
	gates := []*gate{newGate(t, at[0]), newGate(t, at[1])}
	lined := func(n int) func(*app.Config) {
		return func(c *app.Config) {
			c.Cluster.Relay, c.Cluster.RelayAdvertise = at[n], gates[n].listener.Addr().String()
		}
	}
	first := beside(t, url, "a", nil)
	a := bridgetest.Start(t, func(c *app.Config) { first(c); lined(0)(c) })
	b := bridgetest.Start(t, func(c *app.Config) { beside(t, url, "b", a)(c); lined(1)(c) })
	third := together(t, url, "c", a)
	onA, onB := a.Caller(t, "caller-a"), b.Caller(t, "caller-b")
	goes := func(by string) {
		t.Helper()
		var toB, toA way
		eventually.Holds(t, "messages go by "+by, func() bool {
			toB, toA = ways(t, onA)["b"], ways(t, onB)["a"]
			return toB.By == by && toA.By == by && toB.Open && toA.Open
		}, &toB, &toA)
		if toB.Address != gates[1].listener.Addr().String() || (toB.Why == "") != (by == "direct") {
			t.Errorf("a goes to b by %+v", toB)
		}
	}

	speaker, listener, far := a.Connect(t, "speaker"), b.Connect(t, "listener"), third.Connect(t, "far")
	listener.Listen(t, "count/#")
	far.Listen(t, "count/#")
	said := 0
	say := func() {
		said++
		if reason := publishes(t, speaker, &paho.Publish{Topic: "count/up", Payload: fmt.Append(nil, said), QoS: 2}); reason != 0 {
			t.Errorf("%d was answered by %#x", said, reason)
		}
	}
	goes("direct")
	for range 20 {
		say()
	}
	for _, g := range gates {
		g.close(true)
	}
	for range 20 { // at once
		say()
	}
	goes("nats")
	say()
	for _, g := range gates {
		g.close(false)
	}
	goes("direct")
	say()
	for _, c := range []*bridgetest.Raw{listener, far} {
		for i := range said {
			isTold(t, c, "count/up", fmt.Sprint(i+1))
		}
	}
	if c := ways(t, onA)["c"]; c != (way{By: "nats", Open: true}) {
		t.Errorf("messages go to the bridge without lines by %+v", c)
	}
	for series, want := range map[string]bool{
		"aibridge_relay_direct_peers 1": true, "aibridge_relay_direct_frames_sent_total 0": false, "aibridge_relay_direct_lines_broken_total 0": false,
	} {
		if _, metrics := ask(t, http.MethodGet, a.HTTPURL("/metrics")); bytes.Contains(metrics, []byte("\n"+series+"\n")) != want {
			t.Errorf("the metrics have %q: %v", series, !want)
		}
	}
}
