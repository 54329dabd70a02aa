package cap

import (
	"container/list"
	"encoding/json"
	"slices"
	"sync"

	"github.com/aibridge/aibridge/protocol"
)

// Bounds of the memory of values that were set since the bridge
// started.
const (
	maxChanges = 64        // of a value
	maxPast    = 1 << 10   // bytes of a value that is remembered, or listed; of a larger one only when it was set
	maxHistory = 256 << 10 // bytes of a space; the value that changed least recently is forgotten first
	perChange  = 96        // bytes that a change takes besides its value and its writer
)

// A Change is an earlier value.
type Change struct {
	Value     json.RawMessage `json:"data_value,omitempty" doc:"the value; absent if it had more than 1 KiB"`
	UpdatedAt int64           `json:"updated_at" doc:"Unix milliseconds"`
	UpdatedBy string          `json:"updated_by" doc:"sender of the request that set it"`
}

func (c *Change) size() int { return perChange + len(c.Value) + len(c.UpdatedBy) }

// A history remembers the latest changes of values, in memory and bounded.
type history struct {
	mu     sync.Mutex
	spaces map[protocol.SpaceID]*spaceHistory
}

// A spaceHistory remembers the changes of one space's values.
type spaceHistory struct {
	values map[dataRef]*list.Element // of *past
	recent list.List                 // the value that changed last at the front
	bytes  int
}

// A past is the remembered changes of one value.
type past struct {
	of      dataRef
	changes []Change // the oldest first
}

func newHistory() *history { return &history{spaces: make(map[protocol.SpaceID]*spaceHistory)} }

// note remembers that a value was replaced. New values are not remembered: at the
// start of the bridge every value is reported as new.
func (h *history) note(old, new *Datum) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.spaces[new.Space]
	if s == nil {
		s = &spaceHistory{values: make(map[dataRef]*list.Element)}
		h.spaces[new.Space] = s
	}
	if s.values[new.ref()] == nil {
		s.add(new.ref(), old.change())
	}
	s.add(new.ref(), new.change())
}

func (d *Datum) change() Change {
	c := Change{UpdatedAt: d.UpdatedAt, UpdatedBy: d.UpdatedBy}
	if len(d.Value) <= maxPast {
		c.Value = d.Value
	}
	return c
}

func (s *spaceHistory) add(of dataRef, c Change) {
	e := s.values[of]
	if e == nil {
		e = s.recent.PushFront(&past{of: of})
		s.values[of] = e
	}
	s.recent.MoveToFront(e)
	p := e.Value.(*past)
	p.changes = append(p.changes, c)
	s.bytes += c.size()
	if len(p.changes) > maxChanges {
		s.bytes -= p.changes[0].size()
		p.changes = slices.Delete(p.changes, 0, 1)
	}
	for s.bytes > maxHistory && s.recent.Len() > 1 {
		s.forget(s.recent.Back())
	}
}

func (s *spaceHistory) forget(e *list.Element) {
	p := s.recent.Remove(e).(*past)
	delete(s.values, p.of)
	for i := range p.changes {
		s.bytes -= p.changes[i].size()
	}
}

// drop forgets a value that is gone.
func (h *history) drop(of dataRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.spaces[of.space]
	if s == nil || s.values[of] == nil {
		return
	}
	if s.forget(s.values[of]); len(s.values) == 0 {
		delete(h.spaces, of.space)
	}
}

// of lists the remembered changes of a value, the oldest first.
func (h *history) of(ref dataRef) []Change {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.spaces[ref.space]; s != nil && s.values[ref] != nil {
		return slices.Clone(s.values[ref].Value.(*past).changes)
	}
	return nil
}
