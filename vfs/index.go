package vfs

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An index knows every file and every content. It follows the table of records, and the
// writes in flight.
type index struct {
	mu      sync.Mutex
	settled *sync.Cond // something in flight came to its end

	byGroup map[groupID]*groupIndex
	byID    map[string]*Record
	last    uint64 // highest version so far, of any file
	since   int64  // when the index was made, Unix nanoseconds
	changes uint64 // of files since then

	allot      func(protocol.SpaceID, string) (string, int64) // see [StoreOptions]
	allotments map[allotmentID]*allotment

	contents map[Sum]*content
	blobs    map[string]*blobUse
	holds    int // of readers that need all present blobs to stay, see [Store.Hold]
}

type groupID struct {
	space protocol.SpaceID
	group string
}

// A groupIndex is one group of files.
type groupIndex struct {
	files map[string]*Record // by path, deleted ones too
	live  int
	order order
	names pathSet // of files that are there or about to be

	used     int64               // bytes of all kept versions
	pending  int64               // bytes about to be added
	shared   *allotment          // with other groups, nil for none
	inFlight map[uint64]struct{} // versions that are being written
	writers  map[string]int      // by path
	changes  map[string]uint64   // the last one, by folder at the top, "" for all; see [Space.Revision]
}

// A content is the place of bytes with a known sum, with its references.
type content struct {
	blobPosition
	refs int
}

// A blobUse counts the versions and writers that need a blob.
type blobUse struct {
	refs  int       // versions that have their content here, or a part of it
	pins  int       // writers that rely on it
	idle  time.Time // the time since which it is not needed
	dying bool      // is being removed

	damaged uint64 // since which version it is known to be damaged
	newest  uint64 // version that refers to it
}

func newIndex(allot func(protocol.SpaceID, string) (string, int64)) *index {
	x := &index{
		allot: allot, allotments: make(map[allotmentID]*allotment),
		byGroup:  make(map[groupID]*groupIndex),
		byID:     make(map[string]*Record),
		contents: make(map[Sum]*content),
		blobs:    make(map[string]*blobUse),
		since:    time.Now().UnixNano(),
	}
	x.settled = sync.NewCond(&x.mu)
	return x
}

// group finds a group, or makes room for it.
func (x *index) group(space protocol.SpaceID, group string) *groupIndex {
	key := groupID{space, group}
	s := x.byGroup[key]
	if s == nil {
		s = &groupIndex{files: make(map[string]*Record), inFlight: make(map[uint64]struct{}), writers: make(map[string]int),
			changes: make(map[string]uint64), shared: x.allotmentOf(space, group)}
		x.byGroup[key] = s
	}
	return s
}

// changed follows the table.
func (x *index) changed(_ string, old, new *Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if new != nil {
		x.refer(new, old, now)
	}
	if old != nil {
		x.release(old, new, now)
	}
	either := new
	if either == nil {
		either = old
	}
	s := x.group(either.Space, either.Group)
	x.count(s, either.Path)
	s.used += new.bytes() - old.bytes()
	s.shared.uses(new.bytes() - old.bytes())
	if old != nil && old.live() {
		s.live--
	}
	if new == nil {
		delete(s.files, old.Path)
		delete(x.byID, old.ID)
		s.order.remove()
		s.forget(old.Path)
		x.prune(old.Space, old.Group, s)
		return
	}
	if s.files[new.Path] == nil {
		s.order.add(new.Path)
	}
	s.files[new.Path] = new
	x.byID[new.ID] = new
	x.last = max(x.last, new.current().Number)
	if new.live() {
		s.live++
		s.names.add(new.Path)
	} else {
		s.forget(new.Path)
	}
}

// prune forgets a group of which nothing is left.
func (x *index) prune(space protocol.SpaceID, group string, s *groupIndex) {
	if len(s.files) == 0 && len(s.writers) == 0 && len(s.inFlight) == 0 {
		delete(x.byGroup, groupID{space, group})
	}
}

// forget gives a name back that no file and no writer has any more.
func (s *groupIndex) forget(path string) {
	if r := s.files[path]; s.writers[path] == 0 && (r == nil || !r.live()) {
		s.names.remove(path)
	}
}

// refer counts the contents of versions that are new in a record.
func (x *index) refer(new, old *Record, now time.Time) {
	for i := range new.Versions {
		v := &new.Versions[i]
		if v.Blob == "" {
			continue
		}
		known := old != nil && old.at(v.Number) != nil
		for blob := range v.position().blobs() {
			b := x.use(blob, now)
			b.damaged = max(b.damaged, v.Damaged)
			if !known {
				b.refs++
				b.newest = max(b.newest, v.Number)
			}
		}
		x.last = max(x.last, v.Damaged)
		if known {
			continue
		}
		c := x.contents[v.SHA256]
		if c == nil || c.blob != v.Blob && x.broken(c.blobPosition) {
			c = &content{blobPosition: v.position()}
			x.contents[v.SHA256] = c
		}
		if c.same(v.position()) {
			c.refs++
		}
	}
}

// release counts the contents of versions that a record has no more.
func (x *index) release(old, new *Record, now time.Time) {
	for i := range old.Versions {
		v := &old.Versions[i]
		if v.Blob == "" || new != nil && new.at(v.Number) != nil {
			continue
		}
		for blob := range v.position().blobs() {
			b := x.use(blob, now)
			if b.refs--; b.refs == 0 {
				b.idle = now
			}
		}
		if c := x.contents[v.SHA256]; c != nil && c.same(v.position()) {
			if c.refs--; c.refs == 0 {
				delete(x.contents, v.SHA256)
			}
		}
	}
}

func (x *index) use(blob string, now time.Time) *blobUse {
	b := x.blobs[blob]
	if b == nil {
		b = &blobUse{idle: now}
		x.blobs[blob] = b
	}
	return b
}

// pin keeps a blob from being collected until unpin. It waits if the blob is
// just being removed. The index must be locked.
func (x *index) pin(blob string) {
	for {
		b := x.use(blob, time.Now())
		if !b.dying {
			b.pins++
			return
		}
		x.settled.Wait()
	}
}

// pinTimes pins a blob n times, or unpins it.
func (x *index) pinTimes(blob string, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for ; n > 0; n-- {
		x.pin(blob)
	}
	for ; n < 0; n++ {
		x.unpin(blob)
	}
}

// pinAll pins the blobs of a place n times, or unpins them.
func (x *index) pinAll(p blobPosition, n int) {
	for blob := range p.blobs() {
		x.pinTimes(blob, n)
	}
}

// unpin ends a pin. The index must be locked.
func (x *index) unpin(blob string) {
	if b := x.blobs[blob]; b != nil {
		if b.pins--; b.pins == 0 && b.refs == 0 {
			b.idle = time.Now()
		}
	}
}

// number is the number of the next version: microseconds since 1970, or one
// more than the last if the clock does not move on.
func (x *index) number(now time.Time) uint64 {
	x.last = max(x.last+1, uint64(max(0, now.UnixMicro())))
	return x.last
}

// groups lists the groups of a space.
func (x *index) groups(space protocol.SpaceID) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []string
	for key := range maps.Keys(x.byGroup) {
		if key.space == space {
			names = append(names, key.group)
		}
	}
	slices.Sort(names)
	return names
}
