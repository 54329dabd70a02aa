package mirror

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// An intent is a change that one end was about to get from the other. It is
// durable in the journal before the change begins, because whether the change
// happened may never be learned: the answer of the VFS gets lost, or the
// process ends in between. A file that is found at that end later and equals the
// intended one counts as agreed on (see [agreed]), so that an end's own change is
// not taken for another writer's.
type intent struct {
	inward  bool // the folder was to be changed, else the VFS
	deleted bool // by a deletion
	// version is the one that was to come into the folder, or the one that was
	// to be replaced in the VFS.
	version uint64
	size    int64
	sum     Sum
	at      int64  // the clock's time
	moment  uint64 // when this was noted, see entry.touched; not kept
}

// Bounds of the memory of unconfirmed changes.
const (
	maxIntents = 16 // of a path
	// intentLife is the time that a VFS may take to carry out a request after its
	// sender has given up: a change that has not happened by then never does.
	intentLife = 10 * time.Minute
)

// same reports whether two intents are of one change.
func (i *intent) same(other *intent) bool {
	return i.inward == other.inward && i.deleted == other.deleted && i.version == other.version && i.sum == other.sum
}

// open reports whether the change may not be known although both ends agreed
// on a version.
func (i *intent) open(agreed uint64) bool {
	if i.inward {
		return i.version > agreed
	}
	return i.version >= agreed
}

// happened reports whether the change is visible at the end it was intended for,
// and returns the agreed state after it.
func (i *intent) happened(l local, r remote) (base, bool) {
	b := base{known: true, deleted: i.deleted, version: i.version, size: i.size, sum: i.sum, at: i.at}
	switch {
	case i.inward && i.deleted:
		return b, !l.there
	case i.inward:
		return b, l.is(i.sum)
	case i.deleted:
		b.version = r.Version
		return b, r.tombstone && r.Version > i.version
	}
	b.version = r.Version
	return b, r.there && r.SHA256 == i.sum
}

// agreed is the last state that both ends agreed on, given the unconfirmed changes,
// oldest first.
func agreed(b base, intents []intent, l local, r remote) base {
	for n := len(intents) - 1; n >= 0; n-- {
		if !intents[n].open(b.version) {
			continue
		}
		if found, ok := intents[n].happened(l, r); ok && (!b.known || found.version != b.version) {
			return found
		}
	}
	return b
}

// overtaken is [agreed] for changes of the VFS that another writer has replaced
// since: past are the versions of the VFS, oldest first.
func overtaken(b base, intents []intent, past []File) base {
	for _, f := range slices.Backward(past) {
		for n := len(intents) - 1; n >= 0; n-- {
			i := &intents[n]
			if i.inward || !i.open(b.version) || f.Version <= i.version {
				continue
			}
			if found, ok := i.happened(local{}, remoteOf(f)); ok {
				return found
			}
		}
	}
	return b
}

// past lists the versions of the VFS at a path before r, if it tells them and one of
// them may be a change that was not confirmed.
func (e *Engine) past(ctx context.Context, path string, b base, intents []intent, r remote) (list []File, err error) {
	h, ok := e.o.Remote.(Historian)
	if !ok || !slices.ContainsFunc(intents, func(i intent) bool {
		return !i.inward && i.open(b.version) && r.Version > i.version+1
	}) {
		return nil, nil
	}
	err = e.o.Breaker.ask(ctx, func(ctx context.Context) (err error) {
		list, err = h.Versions(ctx, path)
		if refusal(err) || errors.Is(err, errors.ErrUnsupported) { // then it does not tell
			list, err = nil, nil
		}
		return err
	})
	return slices.DeleteFunc(list, func(f File) bool { return f.Version >= r.Version || sane(f, path) != nil }), err
}

// unseen reports whether something was intended after a moment.
func unseen(intents []intent, moment uint64) bool {
	for n := range intents {
		if !intents[n].inward && intents[n].moment > moment {
			return true
		}
	}
	return false
}

// expected is the version that a change in the VFS replaces, for an intent.
func expected(known base, r remote) uint64 { return max(known.version, r.Version) }

// offer makes a change in the VFS, after the intent of it was noted, and checks
// the answer. An outright refusal says that it did not happen.
func (e *Engine) offer(ctx context.Context, path string, i intent, call func(context.Context) (File, error), check func(File) error) (stored File, err error) {
	fresh, err := e.intend(path, i)
	if err != nil {
		return File{}, err
	}
	refused := false
	err = e.o.Breaker.transfer(ctx, func(ctx context.Context) (err error) {
		if stored, err = call(ctx); err != nil {
			refused = refusal(err) && !stale(err)
			return err
		}
		return check(stored)
	})
	if refused && fresh {
		err = errors.Join(err, e.state.drop(path, i))
	}
	return stored, err
}

// intend notes a change durably before it is made, and reports whether the
// same was not intended before.
func (e *Engine) intend(path string, i intent) (fresh bool, err error) {
	i.at = e.now()
	one := intention{path: path, intent: i}
	err = e.state.intend(&one)
	return one.fresh, err
}

// learn takes over the visible effects of changes that were not confirmed, and
// forgets those that surely did not happen. seen says that the VFS was asked. The
// other side of a conflict may have replaced such a change: the VFS is asked for
// its versions to find out.
func (e *Engine) learn(ctx context.Context, path string, known entry, l localStat, r remote, seen bool) (entry, error) {
	intents := e.state.intents(path)
	if len(intents) == 0 {
		return known, nil
	}
	b := agreed(known.base, intents, l.local, r)
	if b == known.base && decide(b, l.local, r) == collide {
		past, err := e.past(ctx, path, b, intents, r)
		if err != nil {
			return known, err
		}
		b = overtaken(b, intents, past)
	}
	if b != known.base {
		known.base = b
		return known, e.state.learn(path, known)
	}
	old := e.o.Now().Add(-intentLife).UnixNano()
	for n := range intents {
		i := &intents[n]
		if i.inward || seen && i.at < old {
			if err := e.state.drop(path, *i); err != nil {
				return known, err
			}
		}
	}
	return known, nil
}

// learn notes an earlier agreement. It keeps entry.touched, as the VFS has told nothing
// new.
func (s *state) learn(path string, e entry) error {
	s.mu.Lock()
	touched := e.touched
	s.put(path, e)
	s.entries[path].touched = touched
	s.mu.Unlock()
	return s.append(false, appendEntry(nil, path, &e))
}

// An intention is an intent for a path.
type intention struct {
	path string
	intent
	fresh bool // the same was not intended before
}

// intend notes intents durably.
func (s *state) intend(list ...*intention) error {
	var records [][]byte
	s.mu.Lock()
	for _, i := range list {
		s.moment++
		i.moment = s.moment
		if i.fresh = s.addIntent(i.path, i.intent); i.fresh {
			records = append(records, appendIntent(nil, recordIntent, i.path, &i.intent))
		}
	}
	s.mu.Unlock()
	return s.append(true, records...)
}

// addIntent reports whether an intent is new.
func (s *state) addIntent(path string, i intent) bool {
	held := s.open[path]
	for n := range held {
		if held[n].same(&i) {
			held[n].moment = max(held[n].moment, i.moment)
			return false
		}
	}
	if len(held) >= maxIntents {
		held = held[1:]
	}
	s.open[path] = append(held[:len(held):len(held)], i)
	return true
}

// dropIntents forgets those that a condition holds for.
func (s *state) dropIntents(path string, gone func(*intent) bool) {
	var left []intent
	for _, i := range s.open[path] {
		if !gone(&i) {
			left = append(left, i)
		}
	}
	if s.open[path] = left; len(left) == 0 {
		delete(s.open, path)
	}
}

// drop forgets an intent that came to nothing.
func (s *state) drop(path string, i intent) error {
	s.mu.Lock()
	s.dropIntents(path, i.same)
	s.mu.Unlock()
	return s.append(false, appendIntent(nil, recordDropped, path, &i))
}

// intents returns the intents for a path.
func (s *state) intents(path string) []intent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]intent(nil), s.open[path]...)
}

// unconfirmed lists the paths that have intents.
func (s *state) unconfirmed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	paths := make([]string, 0, len(s.open))
	for path := range s.open {
		paths = append(paths, path)
	}
	return paths
}

func appendIntent(dst []byte, kind byte, path string, i *intent) []byte {
	var flags byte
	if i.inward {
		flags |= 1
	}
	if i.deleted {
		flags |= 2
	}
	dst = appendText(append(dst, kind, flags), path)
	for _, n := range [...]int64{int64(i.version), i.size, i.at} {
		dst = binary.AppendVarint(dst, n)
	}
	return append(dst, i.sum[:]...)
}

func (d *decoder) intent() (path string, i intent) {
	flags := d.byte()
	i.inward, i.deleted = flags&1 != 0, flags&2 != 0
	path = d.text()
	i.version, i.size, i.at = uint64(d.int()), d.int(), d.int()
	i.sum = d.sum()
	return path, i
}
