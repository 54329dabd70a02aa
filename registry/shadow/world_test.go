package shadow

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// The people of the tests.
var (
	device   = &protocol.Principal{Kind: protocol.KindAgent, ID: "lamp", Space: protocol.DefaultSpace}
	other    = &protocol.Principal{Kind: protocol.KindAgent, ID: "other", Space: protocol.DefaultSpace}
	olga     = &protocol.Principal{Kind: protocol.KindOperator, ID: "olga", Space: protocol.DefaultSpace}
	root     = &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleAdministrator}}
	stranger = &protocol.Principal{Kind: protocol.KindOperator, ID: "olga", Space: "lab"}
)

// A directory has one agent, lamp, with the skills that it provides.
type directory struct {
	mu     sync.Mutex
	born   int64 // 0 while it is not registered
	skills map[protocol.SkillID]Skill
}

func (d *directory) Shadowed(space protocol.SpaceID, id protocol.AgentID) (Agent, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.born == 0 || space != protocol.DefaultSpace || id != "lamp" {
		return Agent{}, false
	}
	return Agent{Space: space, ID: id, Owner: device.Party(), Born: d.born, BelongsTo: func(who *protocol.Principal) bool { return who.Same(device) }}, true
}

func (d *directory) StateOf(space protocol.SpaceID, id protocol.AgentID, skill protocol.SkillID) (Skill, bool) {
	if _, known := d.Shadowed(space, id); !known {
		return Skill{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.skills[skill]
	return s, ok
}

func (d *directory) ServedBy(protocol.SpaceID, protocol.AgentID) (ids []protocol.SkillID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.skills {
		ids = append(ids, id)
	}
	return ids
}

func (d *directory) NotFound(_ *protocol.Principal, _ protocol.SpaceID, id protocol.AgentID) error {
	return protocol.Errorf(protocol.NotFound, "there is no agent %q", id)
}

func (d *directory) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// atMost30 checks that celsius is at most 30.
var atMost30 = Skill{
	Schema: json.RawMessage(`{"type":"object","properties":{"celsius":{"type":"number","maximum":30},"battery":{"readOnly":true},"radio":{"properties":{"rssi":{"readOnly":true}}}}}`),
	Check: func(name string, state json.RawMessage) (path, reason string) {
		var v struct{ Celsius float64 }
		if json.Unmarshal(state, &v) == nil && v.Celsius > 30 {
			return name + ".celsius", "must be at most 30"
		}
		return "", ""
	},
}

// A world is a service with everything around it replaced.
type world struct {
	*Service
	t         testing.TB
	table     *recordstest.Memory[Record]
	directory *directory
	router    *commands.Router
	requests  int

	mu        sync.Mutex
	retained  map[string]string
	published int
	faults    []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, table: recordstest.New[Record](), directory: &directory{born: 1, skills: map[protocol.SkillID]Skill{"light": {}, "heating": atMost30}}}
	w.retained = map[string]string{"aibridge/agent/ghost/state/delta": "{}"}
	w.begin()
	return w
}

// begin starts a service on the table, as a bridge that starts does.
func (w *world) begin() {
	w.Service = New(Options{
		Table: w.table, Agents: w.directory, Publish: w.publish, Retained: w.topics, Authorize: commands.AllowAll{}.Authorize,
		Refused: func(_ protocol.Party, agent protocol.AgentID, why *protocol.Error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.faults = append(w.faults, fmt.Sprint(agent, " ", why.Code))
		},
	})
	set, err := commands.NewSet(w.Commands()...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.router = commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	eventually.Holds(w.t, "the service runs", w.stirred.Begun)
	router := w.router
	w.t.Cleanup(func() {
		_ = router.Close(context.Background())
		cancel()
		<-done
	})
}

func (w *world) publish(to protocol.Recipients, m protocol.Message) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !m.Retain || !m.View || to.Space() != protocol.DefaultSpace {
		w.t.Errorf("published on %s: %+v", m.Topic, m)
	}
	w.published++
	if w.retained[m.Topic] = string(m.Payload); len(m.Payload) == 0 {
		delete(w.retained, m.Topic)
	}
	return 0, nil
}

func (w *world) topics(string) iter.Seq2[string, protocol.SpaceID] {
	w.mu.Lock()
	held := maps.Clone(w.retained)
	w.mu.Unlock()
	return func(yield func(string, protocol.SpaceID) bool) {
		for topic := range held {
			if !yield(topic, protocol.DefaultSpace) {
				return
			}
		}
	}
}

// tells waits until the topics of the lamp have what is wanted, "" for nothing.
func (w *world) tells(desired, reported, delta string) {
	w.t.Helper()
	var got [3]string
	eventually.Holds(w.t, "the topics tell of it", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, leaf := range leaves {
			got[i] = w.retained["aibridge/agent/lamp/state/"+leaf]
		}
		return got == [3]string{desired, reported, delta}
	}, &got)
}

// ask runs a command.
func (w *world) ask(who *protocol.Principal, command, params string) (json.RawMessage, error) {
	w.t.Helper()
	w.requests++
	request := protocol.Request{Version: protocol.Version, ID: strconv.Itoa(w.requests), Command: command, Params: []byte(params)}
	response := w.router.Handle(w.t.Context(), commands.Inbound{Principal: who, Body: request.Append(nil), Door: "test"})
	if response.Err != nil {
		return nil, response.Err
	}
	return response.Result, nil
}

// set runs state.desired.set or state.report, which has to succeed.
func (w *world) set(who *protocol.Principal, command, params string) (r SetResult) {
	w.t.Helper()
	result, err := w.ask(who, command, params)
	if err == nil {
		err = json.Unmarshal(result, &r)
	}
	if err != nil {
		w.t.Fatalf("%s %s: %v", command, params, err)
	}
	return r
}

// get is the state of a skill of the lamp.
func (w *world) get(skill string) SkillView {
	w.t.Helper()
	result, err := w.ask(olga, "state.get", fmt.Sprintf(`{"agent_id":"lamp","skill_id":%q,"history":true}`, skill))
	var r GetResult
	if err == nil {
		err = json.Unmarshal(result, &r)
	}
	if err != nil || len(r.Skills) != 1 {
		w.t.Fatalf("%s: %v", result, err)
	}
	return r.Skills[0]
}

// report publishes on the reported topic, and waits for what becomes of it.
func (w *world) report(who *protocol.Principal, payload string) protocol.Code {
	w.t.Helper()
	settled := make(chan *protocol.Error, 1)
	w.Take(who, "lamp", []byte(payload), func(why *protocol.Error) { settled <- why })
	if why := <-settled; why != nil {
		return why.Code
	}
	return ""
}
