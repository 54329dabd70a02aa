package cap

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// The people of the tests.
var (
	alice  = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}
	bob    = &protocol.Principal{Kind: protocol.KindOperator, ID: "bob", Space: protocol.DefaultSpace}
	carol  = &protocol.Principal{Kind: protocol.KindOperator, ID: "carol", Space: "lab"}
	root   = &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Roles: []string{protocol.RoleAdministrator}}
	sensor = &protocol.Principal{Kind: protocol.KindSkill, ID: "sensor", Space: protocol.DefaultSpace}
	hub    = &protocol.Principal{Kind: protocol.KindAgent, ID: "hub", Space: protocol.DefaultSpace}
)

// A directory knows which skills there are, who owns them and who serves them.
type directory struct {
	owner  map[protocol.SkillID]string
	agents map[protocol.AgentID][]protocol.SkillID
	online map[protocol.SkillID]bool
	tagged map[protocol.SpaceID]map[protocol.AgentID]tags
}

func (d *directory) SpeaksFor(who *protocol.Principal, _ protocol.SpaceID, skill protocol.SkillID) (yes, known bool) {
	owner, known := d.owner[skill]
	return known && owner == who.ID, known
}

func (d *directory) ServedBy(_ protocol.SpaceID, agent protocol.AgentID) []protocol.SkillID {
	return d.agents[agent]
}

func (d *directory) SkillOnline(_ protocol.SpaceID, skill protocol.SkillID) bool {
	return d.online[skill]
}

func (d *directory) Select(space protocol.SpaceID, chosen *selector.Selector, _ protocol.CapabilityID) iter.Seq2[protocol.AgentID, protocol.SkillID] {
	return func(yield func(protocol.AgentID, protocol.SkillID) bool) {
		for _, agent := range slices.Sorted(maps.Keys(d.tagged[space])) {
			if chosen.Matches(d.tagged[space][agent]) && !yield(agent, protocol.SkillID(agent)+"-skill") {
				return
			}
		}
	}
}

// tags are the part of an agent that selectors see.
type tags map[string]string

func (t tags) Has(k selector.Key) bool { _, ok := t[k.Name]; return ok }

func (t tags) Values(k selector.Key) []string {
	if v, ok := t[k.Name]; ok {
		return []string{v}
	}
	return nil
}

// A world is a service with everything around it replaced.
type world struct {
	*Service
	t         testing.TB
	caps      *recordstest.Memory[Cap]
	groups    *recordstest.Memory[Group]
	data      *recordstest.Memory[Datum]
	directory *directory
	router    *commands.Router
	requests  int

	mu       sync.Mutex
	events   []string
	retained map[string]string
	lost     []protocol.CapID
	batches  int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{
		t:        t,
		caps:     recordstest.New[Cap](),
		groups:   recordstest.New[Group](),
		data:     recordstest.New[Datum](),
		retained: map[string]string{},
		directory: &directory{
			owner:  map[protocol.SkillID]string{"heating": "alice", "lamp": "bob"},
			agents: map[protocol.AgentID][]protocol.SkillID{"hub": {"lamp"}},
			online: map[protocol.SkillID]bool{"lamp": true},
		},
	}
	w.Service = New(Options{
		Caps: w.caps, Groups: w.groups, Data: w.data, RemoveAll: w.removeAll, Publish: w.publish, Skills: w.directory,
		MembershipLost: func(_ protocol.SpaceID, id protocol.CapID) { w.lost = append(w.lost, id) },
	})
	set, err := commands.NewSet(w.Commands()...)
	if err != nil {
		t.Fatal(err)
	}
	w.router = commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	eventually.Holds(t, "the service runs", w.news.Begun)
	t.Cleanup(func() {
		_ = w.router.Close(context.Background())
		cancel()
		<-done
	})
	return w
}

func (w *world) removeAll(ctx context.Context, list []Removal) error {
	w.batches++
	for _, r := range list {
		var err error
		switch r.Kind {
		case Caps:
			err = w.caps.Delete(ctx, r.Key, r.Revision)
		case Groups:
			err = w.groups.Delete(ctx, r.Key, r.Revision)
		case Data:
			err = w.data.Delete(ctx, r.Key, r.Revision)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) publish(_ protocol.Recipients, m protocol.Message) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Retain {
		if w.retained[m.Topic] = string(m.Payload); len(m.Payload) == 0 {
			delete(w.retained, m.Topic)
		}
		return 0, nil
	}
	e, err := protocol.DecodeEvent(bytes.Clone(m.Payload), protocol.Limits{})
	if err != nil {
		w.t.Errorf("event on %s: %v", m.Topic, err)
		return 0, nil
	}
	w.events = append(w.events, strings.TrimPrefix(m.Topic, "aibridge/cap/")+" "+e.Name)
	return 0, nil
}

// told reports whether the event was published.
func (w *world) told(event string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e == event {
			return true
		}
	}
	return false
}

func (w *world) kept(topic string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retained[topic]
}

// ask runs a command and returns its result.
func (w *world) ask(who *protocol.Principal, command, params string) (json.RawMessage, error) {
	w.t.Helper()
	w.requests++
	request := protocol.Request{Version: protocol.Version, ID: strconv.Itoa(w.requests), Command: command, Params: []byte(params)}
	response := w.router.Handle(w.t.Context(), commands.Inbound{Principal: who, Body: request.Append(nil), Door: "test"})
	if response.Err != nil {
		return response.Result, response.Err
	}
	return response.Result, nil
}

// must runs a command that has to succeed.
func (w *world) must(who *protocol.Principal, command, params string) map[string]any {
	w.t.Helper()
	result, err := w.ask(who, command, params)
	if err != nil {
		w.t.Fatalf("%s %s: %v", command, params, err)
	}
	var m map[string]any
	if err := json.Unmarshal(result, &m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// refused runs a command that has to fail with the code.
func (w *world) refused(code protocol.Code, who *protocol.Principal, command, params string) *protocol.Error {
	w.t.Helper()
	result, err := w.ask(who, command, params)
	if protocol.CodeOf(err) != code {
		w.t.Errorf("%s %s: got %s, %v, want %s", command, params, result, err, code)
	}
	return protocol.AsError(err)
}

// climate declares a Cap of alice's with a group of two.
func (w *world) climate() {
	w.t.Helper()
	w.must(alice, "cap.declare", `{"cap_id":"climate","cap_name":"Climate","skill_id":"heating","max_members":3}`)
	w.must(alice, "group.member.add", `{"group_id":"up","skill_id":"sensor","role":"sensor","cap_id":"climate"}`)
	w.must(alice, "group.member.add", `{"group_id":"up","skill_id":"lamp","role":"actor","cap_id":"climate"}`)
}
