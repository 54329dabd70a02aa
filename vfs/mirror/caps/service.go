package caps

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
)

// Settings are how a Cap is mirrored.
type Settings struct {
	Enabled  bool
	RealTime bool
	Interval time.Duration
	Rule     mirror.Rule
}

// Channels is what a [Service] asks about Caps.
type Channels interface {
	// Settings returns how a Cap is to be mirrored, and whether there is one.
	Settings(space protocol.SpaceID, id protocol.CapID) (Settings, bool)
	// Documents renders what is known of a Cap as files by name.
	Documents(space protocol.SpaceID, id protocol.CapID) (map[string][]byte, bool)
	// May reports whether there is a Cap, and whether a principal may look at
	// its files, and change them.
	May(who *protocol.Principal, id protocol.CapID) (exists, read, write bool)
	// MayRestore refuses whoever may not bring back a Cap that looks like
	// this.
	MayRestore(who *protocol.Principal, id protocol.CapID, documents map[string][]byte) error
	// Restore makes a Cap what documents say; 4002 if they make no sense.
	Restore(ctx context.Context, space protocol.SpaceID, id protocol.CapID, documents map[string][]byte) error
	// Check is the first half of Restore, which changes nothing.
	Check(space protocol.SpaceID, id protocol.CapID, documents map[string][]byte) error
}

// Options configure a [Service].
type Options struct {
	Dir      string // the local folder of all Caps
	Channels Channels
	// Files are the VFS of a space.
	Files func(protocol.SpaceID) vfs.Files
	// Publish tells the members of a Cap something, as an event.
	Publish func(space protocol.SpaceID, id protocol.CapID, event string, data any)
	Metrics *mirror.Metrics
	Origin  string // names the bridge in the names of copies that lost a conflict
	Log     *slog.Logger
}

// The files of a Cap that the bridge writes itself.
var documents = []string{"cap.json", "group.json", "links.json"}

// Disk is the folder of a Cap whose files are its own.
const Disk = "disk"

// pollEvery is how often a Cap that is mirrored in real time asks the VFS for
// what others wrote there.
const pollEvery = 2 * time.Second

// Bounds of what is mirrored at once.
const (
	maxMirrors  = 2000 // Caps
	maxWatched  = 64   // of them whose folders the system tells about; others are scanned
	opensAtOnce = 4
)

// A Service mirrors Caps.
type Service struct {
	o Options

	mu      sync.Mutex
	mirrors map[ref]*capMirror
	ending  map[ref]<-chan struct{} // mirrors that were stopped, until they have let go of their folder
	links   map[protocol.SpaceID]*mirror.Link
	running context.Context // nil before Run
	parts   sync.WaitGroup
	opening chan struct{}
	watched int
}

// A ref names a Cap.
type ref struct {
	space protocol.SpaceID
	id    protocol.CapID
}

// A capMirror is one Cap's mirror. Its engine is nil while it is being opened,
// or cannot be.
type capMirror struct {
	ref
	settings Settings
	stop     context.CancelFunc
	done     chan struct{}
	dirty    chan struct{} // what is known of the Cap has changed
	watched  bool          // counts among those of the service, whose lock it has

	mu     sync.Mutex
	engine *mirror.Engine
	ready  chan struct{} // closed when the engine is there, or err
	err    error
}

// New makes a service. [Service.Run] starts it.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Publish == nil {
		o.Publish = func(protocol.SpaceID, protocol.CapID, string, any) {}
	}
	if o.Metrics == nil {
		o.Metrics = mirror.NewMetrics(nil)
	}
	return &Service{o: o, mirrors: make(map[ref]*capMirror), ending: make(map[ref]<-chan struct{}), links: make(map[protocol.SpaceID]*mirror.Link),
		opening: make(chan struct{}, opensAtOnce)}
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(syncSpec, s.Sync),
		commands.New(statusSpec, s.Status),
		commands.New(recoverSpec, s.Recover),
	}
}

// Run mirrors the Caps there are, and those that come, until ctx ends.
func (s *Service) Run(ctx context.Context, all iter.Seq2[protocol.SpaceID, protocol.CapID]) error {
	s.mu.Lock()
	s.running = ctx
	s.mu.Unlock()
	for space, id := range all {
		s.Changed(space, id)
	}
	<-ctx.Done()
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	s.parts.Wait()
	return nil
}

// Changed is to be called when anything about a Cap has changed: its
// declaration, its groups, their links or data. It does not block.
func (s *Service) Changed(space protocol.SpaceID, id protocol.CapID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	at := ref{space, id}
	settings, exists := s.o.Channels.Settings(space, id)
	m := s.mirrors[at]
	if m != nil && (!exists || !settings.Enabled || settings != m.settings) {
		m.stop()
		delete(s.mirrors, at)
		s.ending[at] = m.done
		m = nil
	}
	if m == nil {
		s.begin(at, settings, exists && settings.Enabled)
		return
	}
	m.look()
}

// look has the bridge's own files of a Cap compared with what is known of it.
func (m *capMirror) look() {
	select {
	case m.dirty <- struct{}{}:
	default:
	}
}

// begin starts a mirror, after the one before has ended.
func (s *Service) begin(at ref, settings Settings, wanted bool) {
	if !wanted {
		return
	}
	if len(s.mirrors) >= maxMirrors {
		s.o.Log.Warn("too many Caps to mirror", "cap", at.id, "limit", maxMirrors)
		return
	}
	ctx, cancel := context.WithCancel(s.running)
	m := &capMirror{ref: at, settings: settings, stop: cancel,
		done: make(chan struct{}), dirty: make(chan struct{}, 1), ready: make(chan struct{})}
	s.mirrors[at] = m
	link, before := s.link(at.space), s.ending[at]
	s.parts.Go(func() {
		defer s.ended(m)
		defer cancel()
		if before != nil {
			<-before
		}
		s.live(ctx, m, link)
	})
}

// ended lets the next mirror of the Cap begin.
func (s *Service) ended(m *capMirror) {
	close(m.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending[m.ref] == m.done {
		delete(s.ending, m.ref)
	}
}

// link is the way to the VFS of a space, which is looked after from now on.
func (s *Service) link(space protocol.SpaceID) *mirror.Link {
	if l := s.links[space]; l != nil {
		return l
	}
	files := s.o.Files(space)
	l := mirror.NewLink(func(ctx context.Context) error {
		if meter, ok := files.(vfs.Meter); ok {
			_, err := meter.Usage(ctx)
			return err
		}
		_, _, err := files.List(ctx, vfs.MirrorGroup, "", "", 1, false)
		return err
	}, mirror.LinkOptions{OnChange: s.o.Metrics.Circuit(string(space))})
	s.links[space] = l
	ctx := s.running
	s.parts.Go(func() { _ = l.Run(ctx) }) // ends with ctx
	return l
}

// live runs one mirror.
func (s *Service) live(ctx context.Context, m *capMirror, link *mirror.Link) {
	defer s.release(m)
	engine := s.opened(ctx, m, link)
	if engine == nil {
		return
	}
	var parts sync.WaitGroup
	parts.Go(func() { _ = engine.Run(ctx) }) // ends with ctx
	s.describe(ctx, m, engine)
	parts.Wait()
	if err := engine.Close(); err != nil {
		s.o.Log.Warn("mirror of a Cap not closed in order", "cap", m.id, "error", err)
	}
}

// opened opens the engine of a mirror, and tries again as long as that fails:
// the folder may be on a disk that is still to come. It is nil if ctx ends
// before.
func (s *Service) opened(ctx context.Context, m *capMirror, link *mirror.Link) *mirror.Engine {
	for attempt := 0; ; attempt++ {
		s.opening <- struct{}{}
		engine, err := s.open(m, link)
		<-s.opening
		m.mu.Lock()
		m.engine, m.err = engine, err
		m.mu.Unlock()
		if attempt == 0 {
			close(m.ready)
		}
		if err == nil {
			return engine
		}
		s.o.Log.Error("Cap cannot be mirrored, will be tried again", "cap", m.id, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(retry<<min(attempt, 10), reopen)):
		}
	}
}

// folder is where the files of a Cap are.
func (s *Service) folder(at ref) string {
	return filepath.Join(s.o.Dir, vfs.MirrorFolder(protocol.CapID(at.space)), vfs.MirrorFolder(at.id))
}

func (s *Service) open(m *capMirror, link *mirror.Link) (*mirror.Engine, error) {
	return mirror.Open(mirror.Options{
		Dir:      s.folder(m.ref),
		Remote:   mirror.NewPlace(s.o.Files(m.space), vfs.MirrorGroup, vfs.MirrorFolder(m.id)),
		Link:     link,
		Rule:     m.settings.Rule,
		RuleOf:   ruleOf,
		Origin:   s.o.Origin,
		Interval: m.settings.Interval,
		Poll:     min(m.settings.Interval, pollEvery),
		RealTime: m.settings.RealTime && s.watch(m),
		Workers:  2,
		Metrics:  s.o.Metrics,
		Log:      s.o.Log.With("cap", string(m.id)),
		OnConflict: func(l mirror.Loser) {
			s.o.Publish(m.space, m.id, "cap.vfs.conflict", conflictEvent{m.id, m.path(l.Path), string(l.Rule), l.Version, l.Kept})
		},
		OnRound: func(st mirror.Status) {
			m.look() // what came from the VFS may be other documents than the bridge's
			s.o.Publish(m.space, m.id, "cap.vfs.synced", syncedEvent{m.id, string(st.Standing), st.Pending, st.LastSync})
		},
	})
}

// ruleOf has what the bridge knows win over copies of it.
func ruleOf(path string) mirror.Rule {
	for _, name := range documents {
		if path == name {
			return mirror.LocalWins
		}
	}
	return ""
}

// watch reports whether the folder of one more Cap may be watched.
func (s *Service) watch(m *capMirror) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.watched && s.watched < maxWatched {
		m.watched = true
		s.watched++
	}
	return m.watched
}

func (s *Service) release(m *capMirror) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.watched {
		m.watched = false
		s.watched--
	}
}

// gather is how long changes of a Cap are gathered before its files are
// written again, retry until a failure is tried again, and reopen the longest
// until a folder that cannot be opened is tried again.
const (
	gather = 100 * time.Millisecond
	retry  = 2 * time.Second
	reopen = time.Minute
)

// describe writes a Cap's own files whenever they change, until ctx ends.
func (s *Service) describe(ctx context.Context, m *capMirror, engine *mirror.Engine) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.dirty:
			wait.Reset(gather)
			continue
		case <-wait.C:
		}
		if err := s.writeDocuments(ctx, m, engine); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("files of a Cap not written, will be tried again", "cap", m.id, "error", err)
			wait.Reset(retry)
		}
	}
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

// described reports whether both ends have the files that say what is known of
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

// path is how commands name a file of a Cap.
func (m *capMirror) path(file string) string { return "/vfs/cap/" + string(m.id) + "/" + file }

// find returns the mirror of a Cap of the caller's space, once it is there.
func (s *Service) find(ctx context.Context, call *commands.Call, id protocol.CapID, write bool) (*capMirror, *mirror.Engine, error) {
	exists, read, mayWrite := s.o.Channels.May(call.Principal, id)
	switch {
	case !exists:
		return nil, nil, noCap(id)
	case !read || write && !mayWrite:
		return nil, nil, protocol.Errorf(protocol.VFSPermission, "the files of Cap %q are not yours", id).With("cap_id", string(id))
	}
	at := ref{spaceOf(call.Principal), id}
	s.mu.Lock()
	m := s.mirrors[at]
	s.mu.Unlock()
	if m == nil {
		return nil, nil, protocol.Errorf(protocol.InvalidState, "Cap %q is not mirrored", id).
			With("cap_id", string(id)).With("reason", "sync_enabled is false, or too many Caps are mirrored")
	}
	select {
	case <-m.ready:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, nil, protocol.Wrap(protocol.SyncFailed, m.err, "the Cap's folder cannot be opened")
	}
	return m, m.engine, nil
}

func noCap(id protocol.CapID) error {
	return protocol.Errorf(protocol.NotFound, "there is no Cap %q", id).With("cap_id", string(id))
}

func spaceOf(who *protocol.Principal) protocol.SpaceID {
	if who.Space == "" {
		return protocol.DefaultSpace
	}
	return who.Space
}

// What events of a mirror tell.
type (
	conflictEvent struct {
		Cap     protocol.CapID `json:"cap_id"`
		Path    string         `json:"vfs_path"`
		Rule    string         `json:"rule"`
		Version uint64         `json:"version,omitempty"`
		Kept    string         `json:"kept,omitempty"`
	}
	syncedEvent struct {
		Cap      protocol.CapID `json:"cap_id"`
		Standing string         `json:"sync_status"`
		Pending  int            `json:"pending"`
		LastSync int64          `json:"last_sync_time"`
	}
)
