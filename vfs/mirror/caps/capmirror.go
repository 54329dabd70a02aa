package caps

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/vfs/mirror"
)

// A capMirror is one Cap's mirror. Its engine is open while there is something
// to do, and a little longer.
type capMirror struct {
	ref
	settings Settings
	watch    *mirror.Watch   // nil if changes are not carried over as they happen
	before   <-chan struct{} // closed when the mirror of the Cap before has let go of the folder; nil for none
	done     chan struct{}   // closed when this one has

	// The lock of the service has these.
	due      time.Time // in the queue
	place    int       // there, -1 for none
	running  bool
	again    time.Time // another turn was asked for during this one
	ended    bool
	asked    bool      // there is something to do
	next     time.Time // the time of the engine's own next work
	describe time.Time // when the bridge's own files are to be written, zero if they are in order
	rescan   Rescan    // the latest one that was asked for
	reports  map[string]FolderView
	ordered  int64         // the latest order to one of those folders
	standing mirror.Status // when something last happened
	unopened string        // the reason why the folder cannot be opened, without secrets

	mu      sync.Mutex // while the engine is opened or closed
	engine  *mirror.Engine
	rest    *mirror.Rest // of the last engine
	users   int
	used    time.Time
	failed  int  // openings in a row
	closing bool // no more engines
}

// The time for which changes of a Cap are gathered before its files are written again,
// the pause before a failure is tried again, the longest one before a folder that
// cannot be opened is, and the time that an idle engine stays open.
const (
	gather    = 100 * time.Millisecond
	retry     = 2 * time.Second
	reopen    = time.Minute
	idleAfter = 5 * time.Second
)

// unopened is the callers' text of a folder that cannot be opened.
const unopened = "the Cap's folder cannot be opened"

var errEnded = errors.New("the mirror of the Cap has ended")

// acquire opens the engine, if it is not open, until release.
func (s *Service) acquire(ctx context.Context, m *capMirror) (*mirror.Engine, error) {
	if m.before != nil {
		select {
		case <-m.before:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing {
		return nil, errEnded
	}
	if m.engine == nil {
		engine, err := s.open(m)
		if err != nil {
			m.failed++
			return nil, err
		}
		m.engine, m.rest, m.failed = engine, nil, 0
		s.count(1)
	}
	m.users++
	return m.engine, nil
}

// release gives an engine back. It stays open for the next user, unless too many
// are open.
func (s *Service) release(m *capMirror) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users--
	m.used = time.Now()
	if s.crowded() {
		s.restLocked(m)
	}
}

// restIfIdle closes an engine that was not used for a while.
func (s *Service) restIfIdle(m *capMirror) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.used) >= idleAfter {
		s.restLocked(m)
	}
}

func (s *Service) restLocked(m *capMirror) {
	if m.engine == nil || m.users > 0 {
		return
	}
	rest, err := m.engine.Rest()
	if err != nil {
		s.o.Log.Warn("mirror of a Cap not closed in order", "cap", m.id, "error", err)
	}
	m.engine, m.rest = nil, rest
	s.count(-1)
}

// close lets go of the folder for good.
func (s *Service) close(m *capMirror) {
	m.mu.Lock()
	m.closing, m.users = true, 0
	s.restLocked(m)
	m.mu.Unlock()
	if m.watch != nil {
		m.watch.Close()
	}
	close(m.done)
}

// count counts open engines.
func (s *Service) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engines += n
}

// crowded reports whether more engines are open than should stay so.
func (s *Service) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engines > s.o.Open
}

// turn does a mirror's due work and returns the time of the next.
func (s *Service) turn(ctx context.Context, m *capMirror) time.Time {
	work, describe, next := s.duties(m)
	if !work {
		s.restIfIdle(m)
		return next
	}
	engine, err := s.acquire(ctx, m)
	if err != nil {
		return s.tryAgain(ctx, m, describe, err)
	}
	defer s.release(m)
	if describe {
		if err := s.writeDocuments(ctx, m, engine); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("files of a Cap not written, will be tried again", "cap", m.id, "error", err)
			s.describe(m, retry)
		}
	}
	next = engine.Turn(ctx)
	s.note(m, engine.Status())
	s.mu.Lock()
	defer s.mu.Unlock()
	m.next = next
	return earlier(earlier(next, m.describe), time.Now().Add(idleAfter+time.Second))
}

// duties reports whether a mirror has work now, whether the bridge's own files are
// to be written, and the time of the next work if there is none.
func (s *Service) duties(m *capMirror) (work, describe bool, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if describe = !m.describe.IsZero() && !now.Before(m.describe); describe {
		m.describe = time.Time{}
	}
	work = m.asked || describe || !now.Before(m.next)
	m.asked = false
	return work, describe, earlier(m.next, m.describe)
}

// tryAgain is the time when a folder that could not be opened is tried again: its
// disk may not be mounted yet.
func (s *Service) tryAgain(ctx context.Context, m *capMirror, describe bool, err error) time.Time {
	m.mu.Lock()
	wait := min(retry<<min(max(m.failed-1, 0), 10), reopen)
	m.mu.Unlock()
	if !errors.Is(err, errEnded) && ctx.Err() == nil {
		s.o.Log.Error("Cap cannot be mirrored, will be tried again", "cap", m.id, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.asked = true
	m.unopened = unopened
	if describe {
		m.describe = time.Now().Add(wait)
	}
	return time.Now().Add(wait)
}

// earlier is the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// ask has a mirror take a turn soon.
func (s *Service) ask(m *capMirror, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.asked = true
	s.turns.at(m, time.Now().Add(after))
}

// describe has the bridge's own files of a Cap compared with the facts of
// it, after a moment in which more may change.
func (s *Service) describe(m *capMirror, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.describeLocked(m, after)
}

func (s *Service) describeLocked(m *capMirror, after time.Duration) {
	m.describe = earlier(m.describe, time.Now().Add(after))
	s.turns.at(m, m.describe)
}

func (s *Service) writeDocuments(ctx context.Context, m *capMirror, engine *mirror.Engine) error {
	files, ok := s.o.Channels.Documents(m.space, m.id)
	if !ok {
		return nil
	}
	var errs []error
	for _, name := range documents {
		if engine.Holds(name, files[name]) {
			continue
		}
		_, err := engine.Write(ctx, name, strings.NewReader(string(files[name])))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// described reports whether both ends have the files that describe
// a Cap.
func (s *Service) described(m *capMirror, engine *mirror.Engine) bool {
	files, ok := s.o.Channels.Documents(m.space, m.id)
	for _, name := range documents {
		if ok && !engine.Holds(name, files[name]) {
			return false
		}
	}
	return true
}

// path is the name of a file of a Cap in commands.
func (m *capMirror) path(file string) string { return "/vfs/cap/" + string(m.id) + "/" + file }
