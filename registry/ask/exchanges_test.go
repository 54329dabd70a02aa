package ask

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// someAgent is an agent that is asked nothing.
type someAgent struct{ id protocol.AgentID }

func (a *someAgent) Key() AgentKey                        { return AgentKey{protocol.DefaultSpace, a.id} }
func (*someAgent) BelongsTo(*protocol.Principal) bool     { return true }
func (*someAgent) IsOf(protocol.Party) bool               { return true }
func (*someAgent) Recipients() (none protocol.Recipients) { return none }

// listening gets the end of an exchange.
type listening chan outcome

func (l listening) hear(o outcome)     { l <- o }
func (listening) event(string, []byte) {}

func TestLoadGoesToTheLeastBusyAgent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := NewIDs()
		x := newExchanges(ids)
		s := &Service{exchanges: x}
		agents := make([]*someAgent, rapid.IntRange(1, 6).Draw(t, "agents"))
		for i := range agents {
			agents[i] = &someAgent{protocol.AgentID(fmt.Sprint(i))}
		}
		open, ends := map[Agent][]*exchange{}, map[*exchange]listening{}
		id := rapid.SampledFrom([]func() string{ids.New, protocol.NewID}).Draw(t, "ids")
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				some := rapid.SliceOfNDistinct(rapid.SampledFrom(agents), 1, len(agents), rapid.ID).Draw(t, "providers")
				heard := make(listening, 1)
				e := &exchange{id: id(), waiter: heard}
				var peers []Peer
				for _, a := range some {
					peers = append(peers, Peer{Agent: a})
				}
				x.enter(e, peers)
				ends[e] = heard
				if !slices.ContainsFunc(some, func(a *someAgent) bool { return a == e.Agent }) {
					t.Fatalf("%s is none of the providers", e.agentID())
				}
				for _, a := range some {
					if len(open[a]) < len(open[e.Agent]) {
						t.Fatalf("%s has %d open and was chosen, %s has %d", e.agentID(), len(open[e.Agent]), a.id, len(open[a]))
					}
				}
				open[e.Agent] = append(open[e.Agent], e)
			},
			"end": func(t *rapid.T) {
				a := rapid.SampledFrom(agents).Draw(t, "agent")
				if len(open[a]) == 0 {
					return
				}
				e := open[a][0]
				open[a] = open[a][1:]
				if !x.end(e, outcome{}) || x.end(e, outcome{}) {
					t.Fatal("an exchange ends once")
				}
			},
			"end all": func(t *rapid.T) {
				a := rapid.SampledFrom(agents).Draw(t, "agent")
				s.Unregistered(a.Key())
				for _, e := range open[a] {
					if o := <-ends[e]; o.failure == nil || o.failure.kind != Left {
						t.Fatalf("ended as %+v", o)
					}
				}
				open[a] = nil
				if l := x.byAgent[a.Key()]; l != nil && (l != x.latest || l.n > 0) {
					t.Fatal("an agent has a load of nothing")
				}
			},
			"": func(t *rapid.T) {
				total := 0
				for _, list := range open {
					total += len(list)
				}
				if s.Open() != total {
					t.Fatalf("%d open, want %d", s.Open(), total)
				}
			},
		})
	})
}
