package cap

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The people of the tests.
var (
	alice  = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}
	bob    = &protocol.Principal{Kind: protocol.KindOperator, ID: "bob", Space: protocol.DefaultSpace}
	carol  = &protocol.Principal{Kind: protocol.KindOperator, ID: "carol", Space: "lab"}
	root   = &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Roles: []string{protocol.RoleAdministrator}}
	sensor = &protocol.Principal{Kind: protocol.KindSkill, ID: "sensor", Space: protocol.DefaultSpace}
	hub    = &protocol.Principal{Kind: protocol.KindAgent, ID: "hub", Space: protocol.DefaultSpace}
)

// A memory is a table in memory.
type memory[T any] struct {
	mu       sync.Mutex
	rows     map[string]row[T]
	revision *uint64 // shared with the other tables
	onChange []func(string, *T, *T)
	writing  func() // called before every write, to get in between
}

type row[T any] struct {
	value    *T
	revision uint64
}

func (m *memory[T]) Get(key string) (*T, uint64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.rows[key]
	return r.value, r.revision, ok
}

func (m *memory[T]) All() iter.Seq2[string, *T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := maps.Clone(m.rows)
	return func(yield func(string, *T) bool) {
		for key, r := range rows {
			if !yield(key, r.value) {
				return
			}
		}
	}
}

func (m *memory[T]) OnChange(fn func(string, *T, *T)) { m.onChange = append(m.onChange, fn) }

func (m *memory[T]) Create(_ context.Context, key string, v *T) (uint64, error) {
	return m.write(key, v, func(_ uint64, there bool) error {
		if there {
			return protocol.Errorf(protocol.AlreadyExists, "%s is there", key)
		}
		return nil
	})
}

func (m *memory[T]) Put(_ context.Context, key string, v *T) (uint64, error) {
	return m.write(key, v, func(uint64, bool) error { return nil })
}

func (m *memory[T]) Update(_ context.Context, key string, v *T, expect uint64) (uint64, error) {
	return m.write(key, v, func(held uint64, _ bool) error {
		if held != expect {
			return protocol.Errorf(protocol.RevisionConflict, "%s has revision %d", key, held)
		}
		return nil
	})
}

func (m *memory[T]) remove(key string, expect uint64) error {
	_, err := m.write(key, nil, func(held uint64, _ bool) error {
		if held != expect {
			return protocol.Errorf(protocol.RevisionConflict, "%s has revision %d", key, held)
		}
		return nil
	})
	return err
}

func (m *memory[T]) write(key string, v *T, check func(held uint64, there bool) error) (uint64, error) {
	if between := m.writing; between != nil {
		m.writing = nil
		between()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, there := m.rows[key]
	if err := check(old.revision, there); err != nil {
		return 0, err
	}
	*m.revision++
	revision := *m.revision
	if v == nil {
		delete(m.rows, key)
	} else {
		m.rows[key] = row[T]{v, revision}
	}
	m.mu.Unlock()
	for _, fn := range m.onChange {
		fn(key, old.value, v)
	}
	m.mu.Lock()
	return revision, nil
}

// A directory knows which skills there are, who owns them and who serves them.
type directory struct {
	owner  map[protocol.SkillID]string
	agents map[protocol.AgentID][]protocol.SkillID
	online map[protocol.SkillID]bool
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

// A world is a service with everything around it replaced.
type world struct {
	*Service
	t         testing.TB
	caps      *memory[Cap]
	groups    *memory[Group]
	data      *memory[Datum]
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
	revision := new(uint64)
	w := &world{
		t:        t,
		caps:     &memory[Cap]{rows: map[string]row[Cap]{}, revision: revision},
		groups:   &memory[Group]{rows: map[string]row[Group]{}, revision: revision},
		data:     &memory[Datum]{rows: map[string]row[Datum]{}, revision: revision},
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
	eventually(t, "the service runs", w.news.Begun)
	t.Cleanup(func() {
		_ = w.router.Close(context.Background())
		cancel()
		<-done
	})
	return w
}

func (w *world) removeAll(_ context.Context, list []Removal) error {
	w.batches++
	for _, r := range list {
		var err error
		switch r.Kind {
		case Caps:
			err = w.caps.remove(r.Key, r.Revision)
		case Groups:
			err = w.groups.remove(r.Key, r.Revision)
		case Data:
			err = w.data.remove(r.Key, r.Revision)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) publish(_ protocol.Recipients, m Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Retain {
		if w.retained[m.Topic] = string(m.Payload); len(m.Payload) == 0 {
			delete(w.retained, m.Topic)
		}
		return nil
	}
	e, err := protocol.DecodeEvent(bytes.Clone(m.Payload), protocol.Limits{})
	if err != nil {
		w.t.Errorf("event on %s: %v", m.Topic, err)
		return nil
	}
	w.events = append(w.events, strings.TrimPrefix(m.Topic, "aibridge/cap/")+" "+e.Name)
	return nil
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

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// climate declares a Cap of alice's with a group of two.
func (w *world) climate() {
	w.t.Helper()
	w.must(alice, "cap.declare", `{"cap_id":"climate","cap_name":"Climate","skill_id":"heating","max_members":3}`)
	w.must(alice, "group.member.add", `{"group_id":"up","skill_id":"sensor","role":"sensor","cap_id":"climate"}`)
	w.must(alice, "group.member.add", `{"group_id":"up","skill_id":"lamp","role":"actor","cap_id":"climate"}`)
}
