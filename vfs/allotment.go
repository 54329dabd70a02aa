package vfs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// An allotmentID names the room that some groups of a space have together.
type allotmentID struct {
	space protocol.SpaceID
	name  string
}

// An allotment is the room that some groups have together. It is guarded by the lock of the
// index. Nil is that of groups with none but their own.
type allotment struct {
	allotmentID
	bytes   int64 // that there may be
	used    int64 // bytes of all kept versions
	pending int64 // bytes about to be added
	refused uint64
	full    bool // nothing was stored since the last refusal
}

// allotmentOf is the room that a group has together with others, nil for none. The index is
// locked.
func (x *index) allotmentOf(space protocol.SpaceID, group string) *allotment {
	if x.allot == nil {
		return nil
	}
	name, bytes := x.allot(space, group)
	if name == "" {
		return nil
	}
	id := allotmentID{space, name}
	a := x.allotments[id]
	if a == nil {
		a = &allotment{allotmentID: id, bytes: bytes}
		x.allotments[id] = a
	}
	return a
}

// sharing are the groups that have a room together. The index is locked.
func (x *index) sharing(a *allotment) (groups []*groupIndex) {
	for _, g := range x.byGroup {
		if g.shared == a {
			groups = append(groups, g)
		}
	}
	return groups
}

func (a *allotment) uses(bytes int64) {
	if a != nil {
		a.used += bytes
	}
}

func (a *allotment) reserves(bytes int64) {
	if a != nil {
		a.pending += bytes
		a.full = a.full && bytes <= 0
	}
}

// has reports whether there is room for so many bytes more.
func (a *allotment) has(bytes int64) bool { return a.missing(bytes) <= 0 }

// missing is the number of bytes that have to go before so many have room; not above 0 if
// they have.
func (a *allotment) missing(bytes int64) int64 {
	if a == nil {
		return 0
	}
	return a.used + a.pending + bytes - a.bytes
}

// mayHold refuses a content that has no room beside however little: before it is sent.
func (s *Store) mayHold(space protocol.SpaceID, group string, size int64) error {
	if s.opts.Allot == nil {
		return nil
	}
	if name, bytes := s.opts.Allot(space, group); name != "" && size > bytes {
		s.refused(space, group)
		return NoRoom(fmt.Sprintf("the file is larger than the room for files of %s, %d bytes", name, bytes))
	}
	return nil
}

// refused notes that something had no room in a group. The log is told of the first time
// since something had.
func (s *Store) refused(space protocol.SpaceID, group string) {
	s.index.mu.Lock()
	a := s.index.allotmentOf(space, group)
	var news bool
	if a != nil {
		a.refused++
		news, a.full = !a.full, true
	}
	s.index.mu.Unlock()
	if news {
		s.opts.Log.Warn("files find no room", "space", space, "of", a.name, "room_bytes", a.bytes)
	}
}

// An Allotment is the use of the room that some groups have together.
type Allotment struct {
	Space   protocol.SpaceID
	Name    string
	Bytes   int64  // that there may be
	Used    int64  // bytes of all kept versions
	Refused uint64 // contents that had no room since the bridge started
}

// Allotments are the rooms of groups that have one together, as far as anything was written
// to them, by space and name.
func (s *Store) Allotments() []Allotment {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	all := make([]Allotment, 0, len(s.index.allotments))
	for _, a := range s.index.allotments {
		all = append(all, Allotment{a.space, a.name, a.bytes, a.used, a.refused})
	}
	slices.SortFunc(all, func(a, b Allotment) int { return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Name, b.Name)) })
	return all
}
