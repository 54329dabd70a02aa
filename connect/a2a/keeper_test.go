package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/egress"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

const greeterCard = `{"name":"Greeter","description":"Greets","version":"1","capabilities":{"streaming":false},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
	"supportedInterfaces":[{"url":%q,"protocolBinding":%q,"protocolVersion":"1.0"}],"skills":[{"id":"greet","name":"Greet","description":"Says hello","tags":[]}]}`

// A router takes all commands, and knows their names.
type router struct {
	mu   sync.Mutex
	took []string
}

// Handle implements [Router].
func (r *router) Handle(_ context.Context, in commands.Inbound) *protocol.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, in.Request.Command)
	return &protocol.Response{}
}

// last is the list of commands run since the last call.
func (r *router) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.took = nil }()
	return strings.Join(r.took, " ")
}

// HungUp implements [Agents].
func (*router) HungUp(commands.Line, string) {}

// AnswerOver implements [Agents].
func (*router) AnswerOver(commands.Line, *protocol.Principal, []byte) bool { return true }

// A house is a keeper of agents elsewhere without a bridge.
type house struct {
	*keeper
	commands *router
	bus      *fakeBus
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{commands: &router{}, bus: &fakeBus{}}
	s := New(Options{
		On: true, Guard: egress.Guard{AllowPrivate: true}, Table: recordstest.New[Agent](), Router: func() Router { return h.commands },
		Owned: func(space protocol.SpaceID, _ protocol.AgentID) (protocol.Party, bool) {
			return principal(space).Party(), true
		},
		Bus: func() Bus { return h.bus },
	})
	h.keeper = newKeeper(s, h.commands)
	t.Cleanup(s.transport.CloseIdleConnections)
	return h
}

// call is one of an operator.
func (h *house) call() *commands.Call {
	return &commands.Call{Principal: &protocol.Principal{Kind: protocol.KindAgent, ID: "operator", Space: protocol.DefaultSpace}}
}

// approve approves the card of an agent as it is.
func (h *house) approve(t testing.TB, id protocol.AgentID) {
	t.Helper()
	at := key(protocol.DefaultSpace, id)
	a, _, _ := h.opts.Table.Get(at)
	if _, err := h.Approve(t.Context(), h.call(), ApproveParams{Named: Named{ID: id}, Digest: a.digest()}); err != nil {
		t.Fatal(err)
	}
}

// settles has the keeper look, and waits until its work is done.
func (h *house) settles(t testing.TB) string {
	t.Helper()
	h.settle(t.Context(), false)
	h.working.Wait()
	return h.commands.last()
}

func TestAnAgentOnMQTTIsUsedWhileItsPublisherIsTheOneThatWasApproved(t *testing.T) {
	h := newHouse(t)
	publishes := func(who protocol.AgentID) {
		h.bus.mu.Lock()
		defer h.bus.mu.Unlock()
		text := fmt.Sprintf(greeterCard, "mqtt://127.0.0.1:1883", "MQTT5+JSONRPC")
		h.bus.card = BusCard{Text: json.RawMessage(text), Publisher: who.Party(protocol.DefaultSpace), Online: true}
	}
	publishes("greeter")
	if _, err := h.Add(t.Context(), h.call(), AddParams{ID: "greeter", MQTT: "acme/lab/greeter"}); err != nil {
		t.Fatal(err)
	}
	h.approve(t, "greeter")
	if did := h.settles(t); did != "agent.unregister agent.register agent.heartbeat" {
		t.Errorf("an approved agent: %s", did)
	}
	publishes("other")
	if did := h.settles(t); did != "agent.unregister" {
		t.Errorf("the same card of somebody else: %s", did)
	}
	v, err := h.Get(t.Context(), h.call(), Named{ID: "greeter"})
	if err != nil || v.State != StateChanged || v.Publisher != "default/agent/other" {
		t.Errorf("it is %s of %s, %v", v.State, v.Publisher, err)
	}
	publishes("greeter")
	if did := h.settles(t); did != "agent.unregister agent.register agent.heartbeat" {
		t.Errorf("once it is the publisher's again: %s", did)
	}
}

// Nothing of an agent outlasts its removal: the next one of its id is another.
func TestAnAgentThatIsAddedAnewIsNotTakenForTheOneThatWasAway(t *testing.T) {
	h := newHouse(t)
	var down atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		fmt.Fprintf(w, greeterCard, "http://"+r.Host+"/a2a", "JSONRPC")
	}))
	defer elsewhere.Close()
	add := func() {
		if _, err := h.Add(t.Context(), h.call(), AddParams{ID: "greeter", URL: elsewhere.URL}); err != nil {
			t.Fatal(err)
		}
		h.approve(t, "greeter")
	}
	add()
	down.Store(true)
	if _, err := h.Refresh(t.Context(), h.call(), Named{ID: "greeter"}); err == nil {
		t.Fatal("an agent that is away is read")
	}
	h.settles(t)
	h.settles(t) // after the card could not be read
	if _, err := h.Remove(t.Context(), h.call(), Named{ID: "greeter"}); err != nil {
		t.Fatal(err)
	}
	h.settles(t)
	down.Store(false)
	add()
	if did := h.settles(t); !strings.HasSuffix(did, "agent.heartbeat") {
		t.Errorf("added anew: %s", did)
	}
}

func TestAgentsThatAreAddedAtOnceAreBounded(t *testing.T) {
	h := newHouse(t)
	const more = 16
	var all, waiting sync.WaitGroup
	waiting.Add(mostAgents + more)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		waiting.Done()
		waiting.Wait() // each was let in before any is stored
		fmt.Fprintf(w, greeterCard, "http://"+r.Host+"/a2a", "JSONRPC")
	}))
	defer elsewhere.Close()
	var refused atomic.Int32
	for i := range mostAgents + more {
		all.Go(func() {
			_, err := h.Add(t.Context(), h.call(), AddParams{ID: protocol.AgentID(fmt.Sprint("agent-", i)), URL: elsewhere.URL})
			if protocol.CodeOf(err) == protocol.LimitReached {
				refused.Add(1)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := h.opts.Table.Len(); n != mostAgents || refused.Load() != more {
		t.Errorf("there are %d agents, %d were refused", n, refused.Load())
	}
}
