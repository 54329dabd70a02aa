package registry

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// newTestBoard makes a board and the list of changes it tells.
func newTestBoard() (*board, *[]string) {
	var told []string
	b := newBoard(protocol.NewTopics(""), 30*time.Second, func(a *Agent, online bool, reason string) {
		told = append(told, fmt.Sprintf("%s %s: %s", a.ID, statusOf(online), reason))
	})
	b.callable = func(a *Agent) []string {
		if a.ClientID != "" {
			return nil
		}
		return a.Endpoints
	}
	return b, &told
}

func TestTheLastChangesOfAnAgentAreRemembered(t *testing.T) {
	t.Parallel()
	b, told := newTestBoard()
	agent := webLamp()
	b.agentChanged("", nil, agent)
	for range maxHistory {
		b.renew(agent.Key(), "", nil, alice)
		b.mu.Lock()
		b.agents[agent.Key()].lease = time.Time{}
		b.judge(b.agents[agent.Key()], "heartbeats missed")
		b.mu.Unlock()
	}
	changes := b.changes(agent.Key())
	if len(*told) != 2*maxHistory || len(changes) != maxHistory {
		t.Fatalf("%d changes of %d are remembered, want %d", len(changes), len(*told), maxHistory)
	}
	if last := changes[maxHistory-1]; last.Status != Offline || last.Reason != "heartbeats missed" || last.At == 0 || changes[maxHistory-2].Status != Online {
		t.Errorf("the last changes are %+v", changes[maxHistory-2:])
	}
	if gone := b.changes(ask.AgentKey{Space: "default", ID: "nobody"}); gone == nil || len(gone) != 0 {
		t.Errorf("an agent that is not there has changes %v", gone)
	}
}

func lamp(client string) *Agent {
	return &Agent{ID: "lamp", Space: "default", Owner: alice.Party(), ClientID: client}
}

// webLamp is the lamp with an endpoint.
func webLamp() *Agent {
	a := lamp("")
	a.Endpoints = []string{"http://lamp.example/"}
	return a
}

// A testLine is a WebSocket connection.
type testLine struct {
	mu   sync.Mutex
	over bool
	sent [][]byte
}

func (l *testLine) Attend() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.over
}

func (l *testLine) Send(message []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.sent = append(l.sent, message)
	}
	return !l.over
}

const lampRequests = "aibridge/agent/lamp/request"

// A step of a story: what happens, and whether the lamp is online then.
type step struct {
	what   string
	do     func(b *board)
	online bool
}

func TestPresenceFollowsConnectionsAndHeartbeats(t *testing.T) {
	t.Parallel()
	key := lamp("").Key()
	registered := func(client string) step {
		return step{"registered by " + client, func(b *board) { b.agentChanged("", nil, lamp(client)) }, false}
	}
	connect := func(id string, who *protocol.Principal) step {
		return step{id + " connects", func(b *board) { b.connected(id, id, who) }, false}
	}
	subscribe := func(id, filter string) step {
		return step{id + " subscribes to " + filter, func(b *board) { b.subscribed(id, filter) }, false}
	}
	unsubscribe := func(id, filter string) step {
		return step{id + " unsubscribes", func(b *board) { b.unsubscribed(id, filter) }, false}
	}
	disconnect := func(id string) step {
		return step{id + " disconnects", func(b *board) { b.disconnected(id, "gone") }, false}
	}
	beat := func(client string) step {
		return step{"heartbeat by " + client, func(b *board) { b.renew(key, client, nil, alice) }, false}
	}
	onWeb := step{"registered with an endpoint", func(b *board) { b.agentChanged("", nil, webLamp()) }, false}
	lines := map[string]*testLine{"ws": {}, "ws2": {}}
	serve := func(line string, heartbeat bool) step {
		return step{"served by " + line, func(b *board) { b.serve(key, lines[line], alice, heartbeat) }, false}
	}
	hangUp := func(line string) step {
		return step{line + " hangs up", func(b *board) { b.disconnected(lines[line], "gone") }, false}
	}
	beatOver := func(line string) step {
		return step{"heartbeat over " + line, func(b *board) { b.renew(key, "", lines[line], alice) }, false}
	}
	wait := func(d time.Duration) step {
		return step{"after " + d.String(), func(b *board) {
			for range d / time.Second { // as the service does
				time.Sleep(time.Second)
				b.expire(time.Now())
			}
		}, false}
	}
	on := func(s step) step { s.online = true; return s }

	for name, story := range map[string][]step{
		"subscribes, then registers by another client": {
			connect("sub", alice), subscribe("sub", lampRequests), connect("pub", alice),
			on(registered("pub")), on(disconnect("pub")), disconnect("sub"),
		},
		"registers, then subscribes": {
			connect("c", alice), registered("c"), on(subscribe("c", lampRequests)), disconnect("c"),
		},
		"registers and goes, another one listens later": {
			connect("pub", alice), registered("pub"), disconnect("pub"),
			connect("sub", alice), on(subscribe("sub", lampRequests)), unsubscribe("sub", lampRequests),
		},
		"the client that registered it comes back": {
			connect("c", alice), registered("c"), on(subscribe("c", lampRequests)), disconnect("c"), connect("c", alice), on(subscribe("c", lampRequests)),
		},
		"a client of the same id but of somebody else comes": {
			registered("c"), connect("c", bob), subscribe("c", lampRequests),
		},
		"somebody else listens": {
			registered(""), connect("spy", bob), subscribe("spy", lampRequests),
		},
		"its own identity listens": {
			registered(""), connect("c", &protocol.Principal{Kind: protocol.KindAgent, ID: "lamp"}), on(subscribe("c", lampRequests)),
		},
		"its namesake in another space listens": {
			registered(""), connect("c", &protocol.Principal{Kind: protocol.KindAgent, ID: "lamp", Space: "lab"}), subscribe("c", lampRequests),
		},
		"an operator watches everything": {
			registered(""), connect("watch", alice), subscribe("watch", "aibridge/#"), subscribe("watch", "aibridge/agent/+/request"), subscribe("watch", "#"),
		},
		"a wildcard below its own id": {
			registered(""), connect("c", alice), on(subscribe("c", "aibridge/agent/lamp/#")),
		},
		"a shared subscription": {
			registered(""), connect("c", alice), on(subscribe("c", "$share/group/"+lampRequests)), unsubscribe("c", "$share/group/"+lampRequests),
		},
		"a filter told twice ends once": {
			registered(""), connect("c", alice), on(subscribe("c", lampRequests)), on(subscribe("c", lampRequests)), unsubscribe("c", lampRequests),
		},
		"two filters": {
			registered(""), connect("c", alice), on(subscribe("c", lampRequests)), on(subscribe("c", "aibridge/agent/lamp/+")), on(unsubscribe("c", lampRequests)), unsubscribe("c", "aibridge/agent/lamp/+"),
		},
		"two connections": {
			registered(""), connect("a", alice), on(subscribe("a", lampRequests)), on(connect("b", alice)), on(subscribe("b", lampRequests)), on(disconnect("a")), disconnect("b"),
		},
		"without MQTT it lives by its lease": {
			onWeb, on(beat("")), on(wait(89 * time.Second)), wait(2 * time.Second), on(beat("")), on(wait(60 * time.Second)), on(beat("")), on(wait(89 * time.Second)), wait(3 * time.Second),
		},
		"heartbeats alone are no way to it": {
			registered(""), beat(""), wait(10 * time.Second),
		},
		"registered over a WebSocket": {
			registered(""), on(serve("ws", false)), on(wait(10 * time.Minute)), hangUp("ws"),
		},
		"comes back over another WebSocket with a heartbeat": {
			registered(""), on(serve("ws", false)), hangUp("ws"), on(serve("ws2", true)), hangUp("ws2"),
		},
		"the WebSocket that registered it last counts": {
			registered(""), on(serve("ws", false)), on(serve("ws2", false)), on(hangUp("ws")), hangUp("ws2"),
		},
		"a heartbeat takes nothing over": {
			registered(""), on(serve("ws", false)), on(serve("ws2", true)), hangUp("ws"),
		},
		"who sends heartbeats over its WebSocket is held to them": {
			registered(""), on(serve("ws", false)), on(beatOver("ws")), on(wait(80 * time.Second)), wait(15 * time.Second), on(beatOver("ws")),
		},
		"on a WebSocket and MQTT": {
			registered(""), on(serve("ws", false)), on(connect("c", alice)), on(subscribe("c", lampRequests)), on(hangUp("ws")), disconnect("c"),
		},
		"its endpoint outlives its WebSocket": {
			onWeb, on(beat("")), on(serve("ws", false)), on(hangUp("ws")), wait(2 * time.Minute),
		},
		"a connection without heartbeats needs none": {
			connect("c", alice), registered("c"), on(subscribe("c", lampRequests)), on(wait(10 * time.Minute)),
		},
		"who sends heartbeats over its connection is held to them": {
			connect("c", alice), registered("c"), on(subscribe("c", lampRequests)), on(beat("c")), on(wait(80 * time.Second)), on(beat("c")), on(wait(80 * time.Second)),
			wait(15 * time.Second), on(beat("c")), wait(100 * time.Second), disconnect("c"), connect("c", alice), on(subscribe("c", lampRequests)), on(wait(10 * time.Minute)),
		},
		"heartbeats by a client that does not serve it hold nobody": {
			connect("c", alice), registered("c"), on(subscribe("c", lampRequests)), on(beat("passer-by")), on(wait(10 * time.Minute)),
		},
		"the last connection takes the lease along": {
			connect("c", alice), registered("c"), on(subscribe("c", lampRequests)), on(beat("")), disconnect("c"),
		},
		"taken over by a client of the same id": {
			connect("c", alice), registered("c"), on(subscribe("c", lampRequests)), disconnect("c"), connect("c", alice), on(subscribe("c", lampRequests)),
		},
		"registered by another client, and then for its endpoint": {
			connect("c", alice), connect("d", alice), registered("c"), beat(""), registered("d"), on(onWeb),
		},
		"unregistered and registered again while it listens": {
			connect("c", alice), on(comeBack("c")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				b, _ := newTestBoard()
				for _, s := range story {
					s.do(b)
					if got := b.isOnline(key); got != s.online {
						t.Fatalf("%s: online %v, want %v", s.what, got, s.online)
					}
				}
			})
		})
	}
}

// comeBack registers, removes and registers an agent whose client listens.
func comeBack(client string) step {
	return step{"it is removed and registered again", func(b *board) {
		b.subscribed(client, lampRequests)
		b.agentChanged("", nil, lamp(client))
		b.agentChanged("", lamp(client), nil)
		b.agentChanged("", nil, lamp(client))
	}, false}
}

func TestEveryChangeIsToldOnceWithItsReason(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		b, told := newTestBoard()
		b.connected("c", "c", alice)
		b.agentChanged("", nil, lamp("c"))
		b.subscribed("c", lampRequests)
		b.disconnected("c", "keep-alive timeout")
		b.disconnected("c", "twice")
		b.agentChanged("", lamp("c"), webLamp())
		b.renew(lamp("c").Key(), "", nil, alice)
		time.Sleep(2 * time.Minute)
		b.expire(time.Now())
		b.connected("d", "d", alice)
		b.subscribed("d", lampRequests)
		b.agentChanged("", webLamp(), nil)
		if b.onlineCount() != 0 {
			t.Error("an agent that is gone is online")
		}
		want := "[lamp online: listening lamp offline: keep-alive timeout lamp online: heartbeat lamp offline: heartbeats missed lamp online: listening]"
		if got := fmt.Sprint(*told); got != want {
			t.Errorf("told %s\nwant %s", got, want)
		}
	})
}

// TestPresenceAgreesWithItsRule drives a board at random and compares it with
// the rule as it is written, applied to the whole history.
func TestPresenceAgreesWithItsRule(t *testing.T) {
	t.Parallel()
	people := []*protocol.Principal{alice, bob, {Kind: protocol.KindAgent, ID: "lamp", Space: "default"}}
	filters := []string{lampRequests, "aibridge/agent/lamp/+", "$share/g/" + lampRequests, "aibridge/agent/fan/request", "#"}
	rapid.Check(t, func(t *rapid.T) {
		b, told := newTestBoard()
		m := model{agents: map[ask.AgentKey]*Agent{}, conns: map[int]*modelConn{}, lease: map[ask.AgentKey]time.Time{}, held: map[ask.AgentKey]int{}}
		next := 0
		pick := func() int { return rapid.IntRange(0, max(next-1, 0)).Draw(t, "connection") }
		agentOf := func() *Agent {
			return &Agent{
				ID:       rapid.SampledFrom([]protocol.AgentID{"lamp", "fan"}).Draw(t, "agent"),
				Space:    rapid.SampledFrom([]protocol.SpaceID{"default", "lab"}).Draw(t, "space"),
				Owner:    rapid.SampledFrom([]protocol.Party{alice.Party(), bob.Party()}).Draw(t, "owner"),
				ClientID: rapid.SampledFrom([]string{"", "client-0", "client-1"}).Draw(t, "client"),

				Endpoints: rapid.SampledFrom([][]string{nil, {"http://agent.example/"}}).Draw(t, "endpoints"),
			}
		}
		seen := map[ask.AgentKey]reached{}
		check := func() {
			online := 0
			for key := range m.agents {
				now := reached{epoch: b.mu.epoch.Load()}
				now.peers[0].Agent, now.way = b.reachable(key)
				if before, ok := seen[key]; ok && before.epoch == now.epoch && !reflect.DeepEqual(before, now) {
					t.Fatalf("%v is reached in another way, and the epoch has not moved: %+v, before %+v", key, now, before)
				}
				seen[key] = now
				if m.online(key) {
					online++
				}
				if got, want := b.isOnline(key), m.online(key); got != want {
					t.Fatalf("%v online %v, want %v; told %v", key, got, want, *told)
				}
				if got, want := listened(b, key), m.listening(key); got != want {
					t.Fatalf("%v listening %v, want %v", key, got, want)
				}
			}
			if b.onlineCount() != online {
				t.Fatalf("%d online, want %d", b.onlineCount(), online)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"connect": func(t *rapid.T) {
				c := &modelConn{client: fmt.Sprintf("client-%d", rapid.IntRange(0, 2).Draw(t, "client")), who: rapid.SampledFrom(people).Draw(t, "who"), filters: map[string]bool{}}
				for id, old := range m.conns {
					if old.client == c.client { // the broker lets one client go before it takes the next
						m.disconnect(id)
						b.disconnected(id, "taken over")
					}
				}
				m.change(func() { m.conns[next] = c })
				b.connected(next, c.client, c.who)
				next++
			},
			"disconnect": func(*rapid.T) {
				id := pick()
				m.disconnect(id)
				b.disconnected(id, "gone")
			},
			"subscribe": func(t *rapid.T) {
				id, filter := pick(), rapid.SampledFrom(filters).Draw(t, "filter")
				m.change(func() {
					if c := m.conns[id]; c != nil {
						c.filters[filter] = true
					}
				})
				b.subscribed(id, filter)
			},
			"unsubscribe": func(t *rapid.T) {
				id, filter := pick(), rapid.SampledFrom(filters).Draw(t, "filter")
				m.change(func() {
					if c := m.conns[id]; c != nil {
						delete(c.filters, filter)
					}
				})
				b.unsubscribed(id, filter)
			},
			"register": func(*rapid.T) {
				a := agentOf()
				old := m.agents[a.Key()]
				m.change(func() { m.agents[a.Key()] = a })
				b.agentChanged("", old, a)
			},
			"unregister": func(*rapid.T) {
				key := agentOf().Key()
				old := m.agents[key]
				delete(m.agents, key)
				delete(m.lease, key)
				delete(m.held, key)
				b.agentChanged("", old, nil)
			},
			"beat": func(t *rapid.T) {
				key := agentOf().Key()
				client := rapid.SampledFrom([]string{"", "client-0", "client-1"}).Draw(t, "client")
				m.beat(key, client, alice)
				b.renew(key, client, nil, alice)
			},
			"expire": func(*rapid.T) {
				key := agentOf().Key()
				if _, ok := m.lease[key]; !ok {
					return
				}
				ended := time.Now().Add(-time.Second)
				m.lease[key] = ended
				b.mu.Lock()
				b.agents[key].lease = ended
				b.judge(b.agents[key], "heartbeats missed")
				b.mu.Unlock()
			},
		})
	})
}

// A model is the rule of presence, written for reading and not for speed.
type model struct {
	agents map[ask.AgentKey]*Agent
	conns  map[int]*modelConn
	lease  map[ask.AgentKey]time.Time
	held   map[ask.AgentKey]int // the connection an agent sent heartbeats over
}

type modelConn struct {
	client  string
	who     *protocol.Principal
	filters map[string]bool
}

func (m *model) listens(c *modelConn, a *Agent) bool {
	for filter := range c.filters {
		for _, named := range []string{"", "$share/g/"} {
			for _, leaf := range []string{"request", "+"} {
				if filter == named+"aibridge/agent/"+string(a.ID)+"/"+leaf {
					return a.BelongsTo(c.who)
				}
			}
		}
	}
	return false
}

func (m *model) belongs(c *modelConn, a *Agent) bool {
	return m.listens(c, a) || a.ClientID == c.client && a.BelongsTo(c.who)
}

func (m *model) connections(key ask.AgentKey) (ids []int) {
	for id, c := range m.conns {
		if a := m.agents[key]; a != nil && m.belongs(c, a) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m *model) listening(key ask.AgentKey) bool {
	for _, c := range m.conns {
		if m.listens(c, m.agents[key]) {
			return true
		}
	}
	return false
}

func (m *model) onWeb(key ask.AgentKey) bool {
	return m.agents[key].ClientID == "" && len(m.agents[key].Endpoints) > 0
}

func (m *model) online(key ask.AgentKey) bool {
	return m.alive(key) && (m.listening(key) || m.onWeb(key))
}

func (m *model) alive(key ask.AgentKey) bool {
	holds := m.lease[key].After(time.Now())
	if len(m.connections(key)) == 0 {
		return holds
	}
	_, held := m.held[key]
	return holds || !held
}

// change does something and then lets go of leases and of heartbeats whose
// connections are no longer there.
func (m *model) change(do func()) {
	before := map[ask.AgentKey]int{}
	for key := range m.agents {
		before[key] = len(m.connections(key))
	}
	do()
	for key := range m.agents {
		now := m.connections(key)
		if before[key] > 0 && len(now) == 0 && !m.onWeb(key) {
			delete(m.lease, key)
		}
		if id, ok := m.held[key]; ok && !slices.Contains(now, id) {
			delete(m.held, key)
		}
	}
}

func (m *model) disconnect(id int) { m.change(func() { delete(m.conns, id) }) }

func (m *model) beat(key ask.AgentKey, client string, who *protocol.Principal) {
	if m.agents[key] == nil {
		return
	}
	m.lease[key] = time.Now().Add(90 * time.Second)
	for _, id := range m.connections(key) {
		if client != "" && m.conns[id].client == client && m.conns[id].who.ID == who.ID {
			m.held[key] = id
		}
	}
}

// listened reports whether a client of an agent listens on MQTT.
func listened(b *board, key ask.AgentKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w, _ := b.agents[key].way()
	return w.Topics.Request != ""
}
