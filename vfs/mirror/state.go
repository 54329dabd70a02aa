package mirror

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror/journal"
	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// journalName is the name of the journal in the folder.
const journalName = tree.Private + "/journal"

// maxLosers bounds how many conflicts are remembered; their copies stay.
const maxLosers = 10000

// A state is a mirror's knowledge, in memory and in its journal.
type state struct {
	log *journal.Log

	mu      sync.Mutex
	entries map[string]*entry
	names   spellingIndex // paths of entries that hold a file
	paths   pathIndex     // the same
	sources sources       // contents in the VFS
	losers  []Loser
	orders  map[string]order // by path
	open    map[string][]intent
	meta    meta
	moment  uint64 // counts notes
	lines   int    // records in the journal
}

func newState() *state {
	return &state{entries: make(map[string]*entry), orders: make(map[string]order), open: make(map[string][]intent)}
}

// openState reads the journal. A damaged one is read as far as it is good.
func openState(root *os.Root, log *slog.Logger) (*state, error) {
	s := newState()
	l, cut, err := journal.Open(root, journalName, s.replay)
	if err != nil {
		return nil, err
	}
	if cut > 0 {
		log.Warn("the end of the journal was not whole; both ends are compared again", "bytes", cut)
	}
	s.log = l
	for path, e := range s.entries {
		if e.holds() {
			s.note(path)
			s.sources.add(path, e.base)
		}
	}
	return s, nil
}

// replay takes over one record. A record that makes no sense although its
// checksum is right was written by another version: that is an error.
func (s *state) replay(record []byte) error {
	s.lines++
	d := decoder{data: record}
	switch kind := d.byte(); kind {
	case recordEntry:
		if path, e := d.entry(); d.err == nil {
			s.entries[path] = &e
			s.confirm(path, e.base)
		}
	case recordForget:
		delete(s.entries, d.text())
	case recordMeta:
		if m := d.meta(); d.err == nil {
			s.meta = m
		}
	case recordLoser:
		if l := d.loser(); d.err == nil {
			s.addLoser(l)
		}
	case recordOrder:
		if o := d.order(); d.err == nil {
			s.addOrder(o)
		}
	case recordSent:
		if o := d.order(); d.err == nil {
			s.dropOrder(o)
		}
	case recordIntent:
		if path, i := d.intent(); d.err == nil {
			s.addIntent(path, i)
		}
	case recordDropped:
		if path, i := d.intent(); d.err == nil {
			s.dropIntents(path, i.same)
		}
	default:
		return fmt.Errorf("%w: kind %q", errBadRecord, kind)
	}
	return d.err
}

// addLoser reports whether the copy had not lost before.
func (s *state) addLoser(l Loser) bool {
	for i := range s.losers {
		if old := &s.losers[i]; old.Path == l.Path && old.SHA256 == l.SHA256 && old.Version == l.Version && old.Deleted == l.Deleted {
			return false
		}
	}
	s.losers = append(s.losers, l)
	if excess := len(s.losers) - maxLosers; excess > 0 {
		s.losers = slices.Delete(s.losers, 0, excess)
	}
	return true
}

func (s *state) addOrder(o order) {
	s.orders[o.path] = o // a path written again takes its turn again
	s.meta.sequence = max(s.meta.sequence, o.sequence)
}

func (s *state) dropOrder(o order) {
	if s.orders[o.path] == o {
		delete(s.orders, o.path)
	}
}

// get returns a copy of the entry of a path.
func (s *state) get(path string) entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[path]; e != nil {
		return *e
	}
	return entry{}
}

// set replaces the entry of a path.
func (s *state) set(path string, e entry) error {
	s.mu.Lock()
	s.put(path, e)
	s.mu.Unlock()
	return s.append(false, appendEntry(nil, path, &e))
}

// setPrint notes what a local file looks like, in the entry of the path.
func (s *state) setPrint(path string, e entry) error {
	s.mu.Lock()
	if held := s.entries[path]; held != nil {
		e.touched = held.touched // nothing new about the VFS
	}
	s.entries[path] = &e
	s.mu.Unlock()
	return s.append(false, appendEntry(nil, path, &e))
}

// note takes a path into the indexes of files.
func (s *state) note(path string) {
	if s.paths.holds(path) {
		return
	}
	s.names.add(path)
	s.paths.add(path)
}

func (s *state) unnote(path string) {
	if !s.paths.holds(path) {
		return
	}
	s.names.remove(path)
	s.paths.remove(path)
}

func (s *state) put(path string, e entry) {
	s.moment++
	e.touched = s.moment
	if e.holds() {
		s.note(path)
		s.sources.add(path, e.base)
		s.trimSources()
	} else {
		s.unnote(path)
	}
	s.entries[path] = &e
	s.confirm(path, e.base)
	s.meta.clock = max(s.meta.clock, e.at)
}

// confirm forgets the intents that an agreement has settled.
func (s *state) confirm(path string, b base) {
	if len(s.open[path]) > 0 {
		s.dropIntents(path, func(i *intent) bool { return !i.open(b.version) })
	}
}

// remove forgets a path.
func (s *state) remove(path string) error {
	s.mu.Lock()
	delete(s.entries, path)
	s.unnote(path)
	s.moment++
	s.mu.Unlock()
	return s.append(false, appendText([]byte{recordForget}, path))
}

// twin names the path that is in the way of a new one.
func (s *state) twin(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names.check(path)
}

// twinsOf lists the files that are in the way of a path as far as is known.
func (s *state) twinsOf(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.names.check(path)
	if err == nil {
		return nil
	}
	twin, _ := protocol.AsError(err).Details["twin"].(string)
	return s.paths.below(twin)
}

// lost notes durably a copy that loses a conflict, unless that is known.
func (s *state) lost(l Loser) (fresh bool, err error) {
	s.mu.Lock()
	fresh = s.addLoser(l)
	s.mu.Unlock()
	if !fresh {
		return false, nil
	}
	return true, s.append(true, appendLoser(nil, l))
}

// enqueue notes durably that a path is to be sent, after all others so far.
func (s *state) enqueue(path string) (order, error) {
	s.mu.Lock()
	s.meta.sequence++
	o := order{s.meta.sequence, path}
	s.addOrder(o)
	s.mu.Unlock()
	return o, s.append(true, appendOrder(nil, recordOrder, o))
}

// enqueueAll is enqueue of several paths at once.
func (s *state) enqueueAll(paths []string) error {
	records := make([][]byte, len(paths))
	s.mu.Lock()
	for i, path := range paths {
		s.meta.sequence++
		o := order{s.meta.sequence, path}
		s.addOrder(o)
		records[i] = appendOrder(nil, recordOrder, o)
	}
	s.mu.Unlock()
	return s.append(true, records...)
}

// sent notes that an order was carried out.
func (s *state) sent(o order) error {
	s.mu.Lock()
	s.dropOrder(o)
	s.mu.Unlock()
	return s.append(false, appendOrder(nil, recordSent, o))
}

// waiting lists the orders, oldest first.
func (s *state) waiting() []order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.orders), func(a, b order) int { return cmp.Compare(a.sequence, b.sequence) })
}

// update changes the facts of the mirror as a whole.
func (s *state) update(change func(*meta)) error {
	s.mu.Lock()
	change(&s.meta)
	m := s.meta
	s.mu.Unlock()
	return s.append(false, appendMeta(nil, m))
}

// now is the moment before everything noted from now on.
func (s *state) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moment
}

// append writes records.
func (s *state) append(durable bool, records ...[]byte) error {
	if len(records) == 0 {
		return nil
	}
	var encoded []byte
	for _, record := range records {
		encoded = journal.Append(encoded, record)
	}
	s.mu.Lock()
	s.lines += len(records)
	s.mu.Unlock()
	return s.log.Append(encoded, durable)
}

// distrust forgets the versions agreed on, because the VFS is another one, but
// not the contents.
func (s *state) distrust() error {
	s.mu.Lock()
	s.sources = sources{}
	for path, e := range s.entries {
		if e.deleted {
			delete(s.entries, path)
			continue
		}
		again := *e
		again.version = 0
		s.entries[path] = &again
	}
	for path := range s.open {
		s.dropIntents(path, func(i *intent) bool {
			i.version = 0
			return i.deleted || i.inward // they mean versions that are no more
		})
	}
	s.mu.Unlock()
	return s.compact()
}

// Compaction is worth it when most of the journal is history.
const (
	compactFrom  = 4096 // records
	compactRatio = 3
)

// compactIfWorth compacts the journal if that is worth it.
func (s *state) compactIfWorth() error {
	s.mu.Lock()
	live := len(s.entries) + len(s.losers) + len(s.orders) + len(s.open) + 1
	worth := s.lines > compactFrom && s.lines > compactRatio*live
	s.mu.Unlock()
	if !worth {
		return nil
	}
	return s.compact()
}

// compact writes the journal anew.
func (s *state) compact() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = 0
	return s.log.Rewrite(func(emit func([]byte) error) error {
		var buf []byte
		write := func(record []byte) error {
			s.lines++
			return emit(record)
		}
		if err := write(appendMeta(nil, s.meta)); err != nil {
			return err
		}
		for path, e := range s.entries {
			buf = appendEntry(buf[:0], path, e)
			if err := write(buf); err != nil {
				return err
			}
		}
		for path, intents := range s.open {
			for n := range intents {
				if err := write(appendIntent(buf[:0], recordIntent, path, &intents[n])); err != nil {
					return err
				}
			}
		}
		for _, l := range s.losers {
			if err := write(appendLoser(nil, l)); err != nil {
				return err
			}
		}
		for _, o := range s.orders {
			if err := write(appendOrder(nil, recordOrder, o)); err != nil {
				return err
			}
		}
		return nil
	})
}

// below lists the files that both ends agreed on at a path and below it.
func (s *state) below(path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths.below(path)
}

// covers reports whether both ends agreed on the file that stands here.
func (s *state) covers(path string, stamp tree.Stamp) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[path].covers(stamp)
}

// mirrored reports whether both ends agreed on a file at a path, or below it.
func (s *state) mirrored(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths.has(path)
}

// sync makes the notes durable.
func (s *state) sync() error { return s.log.Append(nil, true) }

func (s *state) close() error { return s.log.Close() }
