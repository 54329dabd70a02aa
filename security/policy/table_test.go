package policy

import (
	"context"
	"iter"
	"sync"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A memory is a table in memory.
type memory struct {
	mu       sync.Mutex
	values   map[string]*Record
	revision map[string]uint64
	last     uint64
	told     []func(string, *Record, *Record)
}

var _ commands.Table[Record] = (*memory)(nil)

func (m *memory) Get(key string) (*Record, uint64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	return v, m.revision[key], ok
}

func (m *memory) All() iter.Seq2[string, *Record] { return func(func(string, *Record) bool) {} }

func (m *memory) Create(_ context.Context, key string, v *Record) (uint64, error) {
	return m.set(key, v, 0)
}

func (m *memory) Update(_ context.Context, key string, v *Record, expect uint64) (uint64, error) {
	return m.set(key, v, expect)
}

func (m *memory) Delete(_ context.Context, key string, _ uint64) error {
	_, err := m.set(key, nil, m.revision[key])
	return err
}

func (m *memory) set(key string, v *Record, expect uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values, m.revision = map[string]*Record{}, map[string]uint64{}
	}
	if m.revision[key] != expect {
		return 0, protocol.Errorf(protocol.RevisionConflict, "raced")
	}
	old := m.values[key]
	m.last++
	if v == nil {
		delete(m.values, key)
		delete(m.revision, key)
	} else {
		m.values[key], m.revision[key] = v, m.last
	}
	for _, f := range m.told {
		f(key, old, v)
	}
	return m.last, nil
}

func (m *memory) OnChange(f func(string, *Record, *Record)) { m.told = append(m.told, f) }
