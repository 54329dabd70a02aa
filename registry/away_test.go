package registry

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// A town is some bridges, as their boards see them. What one tells is on its way
// to each of the others until it is carried there, in order.
type town struct {
	bridges map[string]*townBridge
	agents  map[ask.AgentKey]*Agent
	epoch   uint64
}

type townBridge struct {
	*board
	is    ask.Bridge
	conns map[int]string // agents that are listened for, by connection
	line  map[string][]func(*board)
}

// start begins a run of a bridge: it knows what is registered, and is told by the
// others, and tells them, everything.
func (w *town) start(id string) {
	w.epoch++
	b := &townBridge{is: ask.Bridge{ID: id, Epoch: w.epoch}, conns: make(map[int]string), line: make(map[string][]func(*board))}
	b.board = newBoard(protocol.NewTopics(""), 30*time.Second, func(*Agent, bool, string) {})
	b.tell = func(s sign) {
		for other := range w.bridges {
			if other != id {
				b.line[other] = append(b.line[other], func(o *board) { o.told(b.is, s) })
			}
		}
	}
	for _, a := range w.agents {
		b.agentChanged("", nil, a)
	}
	for _, other := range w.bridges {
		other.everything(id, false)
	}
	w.bridges[id] = b
	for other := range w.bridges {
		if other != id {
			b.everything(other, true)
		}
	}
}

// everything tells another bridge all signs, after what is on its way or instead.
func (b *townBridge) everything(to string, after bool) {
	if !after {
		b.line[to] = nil
	}
	b.line[to] = append(b.line[to], func(o *board) { o.tellsAll(b.is) })
	b.signs(func(s sign) { b.line[to] = append(b.line[to], func(o *board) { o.told(b.is, s) }) })
	b.line[to] = append(b.line[to], func(o *board) { o.toldAll(b.is) })
}

// end ends a run: the others hear of it behind what it has told, of which the end
// may be lost.
func (w *town) end(id string, heard func(n int) int) {
	b := w.bridges[id]
	delete(w.bridges, id)
	for other, o := range w.bridges {
		for _, carried := range b.line[other][:heard(len(b.line[other]))] {
			carried(o.board)
		}
		o.bridgeEnded(b.is)
		delete(o.line, id)
	}
}

// TestPresenceIsTheSameAtAllBridges has clients come and go at bridges that start,
// end and are told everything anew, and compares what each knows in the end.
func TestPresenceIsTheSameAtAllBridges(t *testing.T) {
	t.Parallel()
	ids, agents := []string{"a", "b", "c"}, []protocol.AgentID{"lamp", "fan"}
	rapid.Check(t, func(t *rapid.T) {
		w := &town{bridges: make(map[string]*townBridge), agents: make(map[ask.AgentKey]*Agent)}
		for _, id := range ids {
			w.start(id)
		}
		next := 0
		bridge := func(t *rapid.T) (string, *townBridge) {
			id := rapid.SampledFrom(ids).Draw(t, "bridge")
			return id, w.bridges[id]
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {},
			"register": func(t *rapid.T) {
				a := &Agent{ID: rapid.SampledFrom(agents).Draw(t, "agent"), Space: "default", Owner: alice.Party()}
				old := w.agents[a.Key()]
				w.agents[a.Key()] = a
				for _, b := range w.bridges {
					b.agentChanged("", old, a)
				}
			},
			"unregister": func(t *rapid.T) {
				key := ask.AgentKey{Space: "default", ID: rapid.SampledFrom(agents).Draw(t, "agent")}
				if old := w.agents[key]; old != nil {
					delete(w.agents, key)
					for _, b := range w.bridges {
						b.agentChanged("", old, nil)
					}
				}
			},
			"listen": func(t *rapid.T) {
				if _, b := bridge(t); b != nil {
					id := string(rapid.SampledFrom(agents).Draw(t, "agent"))
					next++
					b.conns[next] = id
					b.connected(next, fmt.Sprint("client-", next), alice)
					b.subscribed(next, "aibridge/agent/"+id+"/request")
				}
			},
			"hang up": func(t *rapid.T) {
				if _, b := bridge(t); b != nil {
					for conn := range b.conns {
						delete(b.conns, conn)
						b.disconnected(conn, "gone")
						return
					}
				}
			},
			"carry": func(t *rapid.T) {
				_, b := bridge(t)
				to, o := bridge(t)
				if b != nil && o != nil && len(b.line[to]) > 0 {
					b.line[to][0](o.board)
					b.line[to] = b.line[to][1:]
				}
			},
			"tell anew": func(t *rapid.T) {
				_, b := bridge(t)
				to, o := bridge(t)
				if b != nil && o != nil && b != o {
					b.everything(to, true)
				}
			},
			"end": func(t *rapid.T) {
				if id, b := bridge(t); b != nil {
					w.end(id, func(n int) int { return rapid.IntRange(0, n).Draw(t, "heard") })
				}
			},
			"start": func(t *rapid.T) {
				if id, b := bridge(t); b == nil {
					w.start(id)
				}
			},
		})
		for _, b := range w.bridges {
			for to, line := range b.line {
				for _, carried := range line {
					carried(w.bridges[to].board)
				}
			}
		}
		w.compare(t)
	})
}

func (w *town) compare(t *rapid.T) {
	for key := range w.agents {
		where := make(map[ask.Bridge]bool)
		for _, b := range w.bridges {
			for _, agent := range b.conns {
				if agent == string(key.ID) {
					where[b.is] = true
				}
			}
		}
		for id, b := range w.bridges {
			if got := b.isOnline(key); got != (len(where) > 0) {
				t.Fatalf("%s says that %s is online: %v; it is connected to %v", id, key.ID, got, where)
			}
			a, way := b.reachable(key)
			at := way.Bridge
			if at == (ask.Bridge{}) {
				at = b.is
			}
			if a != nil && !where[at] {
				t.Fatalf("%s sends what %s is asked to %v; it is connected to %v", id, key.ID, at, where)
			}
		}
	}
}

// overheard is a voice that keeps what is said.
type overheard struct{ said chan []byte }

func (overheard) Tell([]byte) {}

func (o overheard) Say(_ ask.Bridge, body []byte) bool {
	o.said <- body
	return true
}

// message is a message of a bridge: a kind, a head in JSON, the rest.
func message(kind byte, head, rest string) []byte {
	b := binary.AppendUvarint([]byte{kind}, uint64(len(head)))
	return append(append(b, head...), rest...)
}

// TestOnlyTheAgentAnswersWhatItWasAskedElsewhere has the bridge of an agent hand
// back what others say.
func TestOnlyTheAgentAnswersWhatItWasAskedElsewhere(t *testing.T) {
	t.Parallel()
	voice := overheard{make(chan []byte, 10)}
	w := newWorld(t, func(o *Options) { o.Cluster = func(*Service) Voice { return voice } })
	w.do(alice, "agent.register", `{"agent_id":"lamp","type":"end_agent","skills":[{"skill_id":"light","name":"Light","capabilities":["switch"]}]}`, nil)
	there := ask.Bridge{ID: "there", Epoch: 7}
	w.Told(there, sign{Space: "default", ID: "lamp", Alive: true, Way: byLine, Since: 1}.encode())

	answer := make(chan *protocol.Response, 1)
	go func() {
		answer <- w.ask(question{who: bob, command: "skill.invoke", params: `{"skill_id":"light","capability_id":"switch"}`, timeout: 5 * time.Minute})
	}()
	var said []byte
	select {
	case said = <-voice.said:
	case a := <-answer:
		t.Fatalf("nobody is asked: %v", a.Err)
	}
	_, size := binary.Uvarint(said[1:])
	var request struct{ ID, Space, Agent string }
	if err := json.NewDecoder(bytes.NewReader(said[1+size:])).Decode(&request); err != nil || said[0] != 1 || request.Agent != "lamp" || request.Space != "default" {
		t.Fatalf("the bridge is told %s, %v", said, err)
	}
	forged := fmt.Sprintf(`{"version":"0.6.3","id":%q,"type":"response","status":"success","result":{"by":"somebody else"}}`, request.ID)
	for name, head := range map[string]string{
		"somebody else on the topic":               `{"agent":"lamp","who":"default/operator/bob"}`,
		"the owner in another space":               `{"agent":"lamp","who":"lab/operator/alice"}`,
		"another agent":                            `{"agent":"fan","who":"default/operator/alice"}`,
		"an agent of this id in another space":     `{"agent":"lamp","who":"lab/agent/lamp"}`,
		"over the line of another agent":           `{"over":[{"Space":"default","ID":"fan"}],"who":"default/operator/alice"}`,
		"over the agent's line, by somebody else":  `{"over":[{"Space":"default","ID":"lamp"}],"who":"default/operator/bob"}`,
		"over the line of its like elsewhere":      `{"over":[{"Space":"lab","ID":"lamp"}],"who":"lab/operator/alice"}`,
		"over a line that serves nobody":           `{"who":"default/operator/alice"}`,
		"nobody":                                   `{"agent":"lamp","who":""}`,
		"somebody who is no party":                 `{"agent":"lamp","who":"a/b/c/d"}`,
		"something that is not the head of a said": `[]`,
	} {
		w.Said(there, message(2, head, forged))
		select {
		case a := <-answer:
			t.Fatalf("%s answered: %s %v", name, a.Result, a.Err)
		default:
		}
	}
	w.Said(there, message(2, `{"over":[{"Space":"default","ID":"lamp"}],"who":"default/operator/alice"}`, fmt.Sprintf(`{"id":%q,"status":"success","result":{"by":"lamp"}}`, request.ID)))
	if a := <-answer; a.Err != nil || !strings.Contains(string(a.Result), `{"by":"lamp"}`) {
		t.Errorf("the answer is %s %v", a.Result, a.Err)
	}
}

// FuzzSaidByBridges takes what may come of a bridge of another version.
func FuzzSaidByBridges(f *testing.F) {
	for _, m := range [][]byte{
		message(1, `{"id":"x-1","space":"default","agent":"lamp","expiry_ms":1000}`, `{"command":"skill.invoke"}`),
		message(2, `{"agent":"lamp","who":"default/operator/alice"}`, `{}`),
		message(3, `{"id":"x-1"}`, ""), message(9, "", ""), {1, 0xff, 0xff}, {},
	} {
		f.Add(m)
	}
	w := newWorld(f, func(o *Options) { o.Cluster = func(*Service) Voice { return muted{} } })
	w.do(alice, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`, nil)
	f.Fuzz(func(_ *testing.T, m []byte) {
		w.Said(ask.Bridge{ID: "there", Epoch: 1}, m)
		w.Told(ask.Bridge{ID: "there", Epoch: 1}, m)
	})
}

type muted struct{}

func (muted) Tell([]byte)                 {}
func (muted) Say(ask.Bridge, []byte) bool { return false }
