package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/internal/natsd"
	"github.com/aibridge/aibridge/protocol"
)

// A model is a store beside a plain map that should hold the same.
type model struct {
	dir     string
	servers *natsd.Server
	store   *Store
	things  *Table[thing]

	want    map[string]modelEntry
	told    map[string]thing // what OnChange added up to
	written uint64           // revision of the last write
}

type modelEntry struct {
	value    thing
	revision uint64
}

func (m *model) start(t *rapid.T) {
	var err error
	if m.servers, err = natsd.Start(natsd.Options{Dir: m.dir}); err != nil {
		t.Fatal(err)
	}
	m.store, err = Open(context.Background(), Conns{State: m.servers.State(), Flow: m.servers.Flow()}, patient(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	m.things = NewTable[thing](m.store, "thing")
	m.told = make(map[string]thing)
	m.things.OnChange(func(key string, old, new *thing) {
		before, there := m.told[key]
		if there != (old != nil) || there && before != *old {
			t.Errorf("OnChange(%q): old is %v, it was %v", key, old, before)
		}
		if new == nil {
			delete(m.told, key)
		} else {
			m.told[key] = *new
		}
	})
	if err := m.store.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (m *model) stop() {
	m.store.Close()
	m.servers.Close()
}

func (m *model) key(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "default/a", "ä.b=c", "x y", "*>"}).Draw(t, "key")
}

func (m *model) value(t *rapid.T) *thing {
	return &thing{Name: rapid.StringN(0, 8, 32).Draw(t, "name"), N: rapid.Int().Draw(t, "n")}
}

// revision is the right one for a key, or another.
func (m *model) revision(t *rapid.T, key string) uint64 {
	if rapid.Bool().Draw(t, "right") {
		return m.want[key].revision
	}
	return rapid.Uint64Range(1, 50).Draw(t, "revision")
}

// expect compares an outcome with the one that the model says, and records
// what was written.
func (m *model) expect(t *rapid.T, key string, v *thing, revision uint64, err error, want protocol.Code) {
	if got := protocol.CodeOf(err); got != want {
		t.Fatalf("%q: error = %v, want code %q", key, err, want)
	}
	if want != "" {
		return
	}
	if revision <= m.written {
		t.Fatalf("revision %d after %d", revision, m.written)
	}
	m.written = revision
	m.want[key] = modelEntry{*v, revision}
}

func (m *model) Create(t *rapid.T) {
	key, v := m.key(t), m.value(t)
	var want protocol.Code
	if _, there := m.want[key]; there {
		want = protocol.AlreadyExists
	}
	revision, err := m.things.Create(context.Background(), key, v)
	m.expect(t, key, v, revision, err, want)
}

func (m *model) Put(t *rapid.T) {
	key, v := m.key(t), m.value(t)
	revision, err := m.things.Put(context.Background(), key, v)
	m.expect(t, key, v, revision, err, "")
}

func (m *model) Update(t *rapid.T) {
	key, v := m.key(t), m.value(t)
	expect := m.revision(t, key)
	var want protocol.Code
	if e, there := m.want[key]; !there || e.revision != expect {
		want = protocol.RevisionConflict
	}
	revision, err := m.things.Update(context.Background(), key, v, expect)
	m.expect(t, key, v, revision, err, want)
}

func (m *model) Delete(t *rapid.T) {
	key := m.key(t)
	expect := uint64(0)
	if rapid.Bool().Draw(t, "guarded") {
		expect = m.revision(t, key)
	}
	var want protocol.Code
	e, there := m.want[key]
	switch {
	case !there:
		want = protocol.NotFound
	case expect != 0 && expect != e.revision:
		want = protocol.RevisionConflict
	}
	err := m.things.Delete(context.Background(), key, expect)
	if got := protocol.CodeOf(err); got != want {
		t.Fatalf("Delete(%q, %d) = %v, want code %q", key, expect, err, want)
	}
	if want == "" {
		delete(m.want, key)
	}
}

// Atomic creates one key and deletes another, or neither.
func (m *model) Atomic(t *rapid.T) {
	create, remove, v := m.key(t), m.key(t), m.value(t)
	if create == remove {
		return
	}
	_, there := m.want[create]
	_, removable := m.want[remove]
	err := m.store.Atomic(context.Background(), m.things.CreateOp(create, v), m.things.DeleteOp(remove, 0))
	if (err == nil) != (!there && removable) {
		t.Fatalf("Atomic(create %q, delete %q) = %v", create, remove, err)
	}
	if err == nil {
		_, revision, _ := m.things.Get(create)
		m.want[create] = modelEntry{*v, revision}
		delete(m.want, remove)
		m.written = max(m.written, revision)
	}
}

// seldom skips most of the runs of a slow action.
func seldom(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "seldom") != 9 {
		t.Skip("not now")
	}
}

func (m *model) Restart(t *rapid.T) {
	seldom(t)
	m.stop()
	m.start(t)
}

func (m *model) BackupAndRestore(t *rapid.T) {
	seldom(t)
	var archive bytes.Buffer
	if _, err := m.store.Backup(context.Background(), &archive, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	m.store.Close()
	s, err := Open(context.Background(), Conns{State: m.servers.State(), Flow: m.servers.Flow()}, patient(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(context.Background(), &archive, true, nil); err != nil {
		t.Fatal(err)
	}
	s.Close()
	m.servers.Close()
	m.start(t)
	for key, e := range m.want { // revisions are others now
		_, revision, _ := m.things.Get(key)
		if revision <= m.written {
			t.Fatalf("%q has revision %d, %d was the last", key, revision, m.written)
		}
		m.want[key] = modelEntry{e.value, revision}
	}
}

func (m *model) Check(t *rapid.T) {
	if m.things.Len() != len(m.want) {
		t.Fatalf("%d keys, want %d", m.things.Len(), len(m.want))
	}
	seen := 0
	for key, v := range m.things.All() {
		seen++
		if *v != m.want[key].value {
			t.Fatalf("%q is %v, want %v", key, *v, m.want[key].value)
		}
	}
	values := make(map[string]thing)
	for key, want := range m.want {
		values[key] = want.value
		v, revision, ok := m.things.Get(key)
		if !ok || *v != want.value || revision != want.revision {
			t.Fatalf("Get(%q) = %v, %d, %t, want %v, %d", key, v, revision, ok, want.value, want.revision)
		}
	}
	if seen != len(m.want) || !maps.Equal(m.told, values) {
		t.Fatalf("All yields %d, OnChange told of %v, want %v", seen, m.told, values)
	}
}

func TestATableBehavesLikeAMap(t *testing.T) {
	t.Parallel()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := &model{dir: fmt.Sprintf("%s/%d", t.TempDir(), run), want: make(map[string]modelEntry)}
		m.start(rt)
		defer func() { m.stop() }()
		actions := rapid.StateMachineActions(m)
		actions["Put2"], actions["Update2"], actions["Create2"] = m.Put, m.Update, m.Create
		rt.Repeat(actions)
	})
}
