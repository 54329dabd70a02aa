package caps

import (
	"context"
	"iter"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
)

// Settings are the settings of a Cap's mirror.
type Settings struct {
	Enabled  bool
	RealTime bool
	Interval time.Duration
	Rule     mirror.Rule
}

// Channels answers the questions of a [Service] about Caps.
type Channels interface {
	// Settings returns how a Cap is to be mirrored, and whether there is one.
	Settings(space protocol.SpaceID, id protocol.CapID) (Settings, bool)
	// Documents renders the facts of a Cap as files by name.
	Documents(space protocol.SpaceID, id protocol.CapID) (map[string][]byte, bool)
	// May reports whether there is a Cap, and whether a principal may look at
	// its files, and change them.
	May(who *protocol.Principal, id protocol.CapID) (exists, read, write bool)
	// MayRestore refuses a principal that may not restore a Cap with these
	// documents.
	MayRestore(who *protocol.Principal, id protocol.CapID, documents map[string][]byte) error
	// Restore makes a Cap as documents describe it; 4002 if they make no sense.
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
	// Publish publishes an event to the members of a Cap.
	Publish func(space protocol.SpaceID, id protocol.CapID, event string, data any)
	// Elsewhere has one of [Service.Errands] done by the bridge of a cluster that
	// mirrors Caps, and reads the result. elsewhere is false if that is this one. nil
	// for a bridge that works alone.
	Elsewhere func(ctx context.Context, do string, with, result any) (elsewhere bool, err error)
	Metrics   *mirror.Metrics
	Origin    string // names the bridge in the names of copies that lost a conflict

	Mirrors int           // Caps that are mirrored at most; 100 000
	Open    int           // of them, whose folders stay open at a time; 64
	Turns   int           // of them, that something is done for at a time; 8
	Watches int           // folders that are watched at most; 0 for as many as the system allows
	Poll    time.Duration // the interval of asking the VFS for changes, for Caps mirrored in real time; 2 seconds
	Scan    time.Duration // how often others are scanned that are mirrored in real time; 10 seconds

	KeepAge   time.Duration // how long copies are kept that lost conflicts; 90 days
	KeepBytes int64         // how much those of one Cap may take; 1 GiB

	Log *slog.Logger
}

// The files of a Cap that the bridge writes itself.
var documents = []string{"cap.json", "group.json", "links.json"}

// Disk is the folder of a Cap whose files are its own.
const Disk = "disk"

// rarely is the interval at which a Cap that is mirrored in real time is looked at as a
// whole while the system tells of all changes in its folder.
const rarely = 10 * time.Minute

// A Service mirrors Caps. A Cap with nothing to do costs no open file and no
// goroutine.
type Service struct {
	o     Options
	begun chan struct{} // closed once Run knows all Caps

	mu       sync.Mutex
	mirrors  map[ref]*capMirror
	ending   map[ref]<-chan struct{} // mirrors that were stopped, until they have let go of their folder
	breakers map[protocol.SpaceID]*mirror.Breaker
	running  context.Context // nil before Run
	parts    sync.WaitGroup
	turns    *schedule
	engines  int             // open
	watcher  *mirror.Watcher // nil if there is none
	unheard  error           // why
}

// A ref names a Cap.
type ref struct {
	space protocol.SpaceID
	id    protocol.CapID
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
	for _, d := range []struct {
		value    *int
		fallback int
	}{{&o.Mirrors, 100_000}, {&o.Open, 64}, {&o.Turns, 8}} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if o.Poll <= 0 {
		o.Poll = 2 * time.Second
	}
	if o.Scan <= 0 {
		o.Scan = 10 * time.Second
	}
	return &Service{o: o, begun: make(chan struct{}), mirrors: make(map[ref]*capMirror), ending: make(map[ref]<-chan struct{}),
		breakers: make(map[protocol.SpaceID]*mirror.Breaker), turns: newSchedule(o.Turns)}
}

// Commands are the commands of the package.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(syncSpec, s.Sync),
		commands.New(statusSpec, s.Status),
		commands.New(listSpec, s.List),
		commands.New(recoverSpec, s.Recover),
		commands.New(pauseSpec, s.Pause),
		commands.New(resumeSpec, s.Resume),
		commands.New(rescanSpec, s.Rescan),
		commands.New(restoreSpec, s.Restore),
		commands.New(reportSpec, s.Report),
	}
}

// Run mirrors the Caps there are, and those that come, until ctx ends.
func (s *Service) Run(ctx context.Context, all iter.Seq2[protocol.SpaceID, protocol.CapID]) error {
	watcher, err := mirror.NewWatcher(s.o.Watches, s.o.Log)
	if err != nil {
		s.o.Log.Warn("Caps are not mirrored in real time: their folders are scanned", "every", s.o.Scan, "error", err)
	}
	s.mu.Lock()
	s.running, s.watcher, s.unheard = ctx, watcher, err
	s.mu.Unlock()
	s.parts.Go(func() { s.schedule(ctx) })
	for space, id := range all {
		s.Changed(space, id)
	}
	close(s.begun)
	<-ctx.Done()
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	s.parts.Wait()
	for at, m := range s.mirrors { // nothing else uses them any more
		s.close(m)
		delete(s.mirrors, at)
	}
	if watcher != nil {
		return watcher.Close()
	}
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
		s.stop(m)
		m = nil
	}
	switch {
	case m != nil:
		s.describeLocked(m, gather)
	case exists && settings.Enabled:
		s.begin(at, settings)
	}
}

// stop ends a mirror. The lock is held.
func (s *Service) stop(m *capMirror) {
	m.ended = true
	delete(s.mirrors, m.ref)
	s.ending[m.ref] = m.done
	s.turns.remove(m)
	if !m.running {
		s.end(m)
	}
}

// end closes a mirror that has no turn any more, and lets the next one of the
// Cap begin. The lock is held.
func (s *Service) end(m *capMirror) {
	s.parts.Go(func() {
		s.close(m)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ending[m.ref] == m.done {
			delete(s.ending, m.ref)
		}
	})
}

// begin starts a mirror, after the one before has ended. The lock is held.
func (s *Service) begin(at ref, settings Settings) {
	if len(s.mirrors) >= s.o.Mirrors {
		s.o.Log.Warn("too many Caps to mirror", "cap", at.id, "limit", s.o.Mirrors, "setting", "vfs.sync.mirrors")
		return
	}
	m := &capMirror{ref: at, settings: settings, place: -1, before: s.ending[at], done: make(chan struct{}), asked: true}
	if settings.RealTime {
		m.watch = s.watcher.Watch(s.folder(at), s.unheard, func() { s.ask(m, 0) })
	}
	s.mirrors[at] = m
	s.breaker(at.space)
	s.describeLocked(m, 0)
}

// breaker is the way to the VFS of a space, which is looked after from now on. The
// lock is held.
func (s *Service) breaker(space protocol.SpaceID) *mirror.Breaker {
	if l := s.breakers[space]; l != nil {
		return l
	}
	files := s.o.Files(space)
	l := mirror.NewBreaker(func(ctx context.Context) error {
		if meter, ok := files.(vfs.Meter); ok {
			_, err := meter.Usage(ctx)
			return err
		}
		_, _, err := files.List(ctx, vfs.MirrorGroup, "", "", 1, false)
		return err
	}, mirror.BreakerOptions{OnChange: s.o.Metrics.Circuit(string(space))})
	s.breakers[space] = l
	ctx := s.running
	s.parts.Go(func() { _ = l.Run(ctx) }) // ends with ctx
	s.parts.Go(func() { s.poll(ctx, space, files, l) })
	return l
}

// folder is the folder of the files of a Cap.
func (s *Service) folder(at ref) string {
	return filepath.Join(s.o.Dir, vfs.MirrorFolder(protocol.CapID(at.space)), vfs.MirrorFolder(at.id))
}

func (s *Service) open(m *capMirror) (*mirror.Engine, error) {
	s.mu.Lock()
	breaker := s.breakers[m.space]
	s.mu.Unlock()
	return mirror.Open(mirror.Options{
		Dir:      s.folder(m.ref),
		Remote:   mirror.NewRemoteFolder(s.o.Files(m.space), vfs.MirrorGroup, vfs.MirrorFolder(m.id)),
		Breaker:  breaker,
		Rule:     m.settings.Rule,
		RuleOf:   ruleOf,
		Origin:   s.o.Origin,
		Interval: m.settings.Interval,
		Rarely:   rarely,
		Scan:     s.o.Scan,
		Poll:     -1, // for all Caps of a space at once
		RealTime: m.settings.RealTime,
		Watch:    m.watch,
		Rest:     m.rest,
		Workers:  2,
		Ignore:   Disk + "/" + mirror.IgnoreFile,
		KeepAge:  s.o.KeepAge, KeepBytes: s.o.KeepBytes,
		Metrics: s.o.Metrics,
		Log:     s.o.Log.With("cap", string(m.id)),
		OnWake:  func() { s.ask(m, 0) },
		OnConflict: func(l mirror.Loser) {
			s.o.Publish(m.space, m.id, "cap.vfs.conflict", conflictEvent{m.id, m.path(l.Path), string(l.Rule), l.Version, l.Kept})
		},
		OnRound: func(st mirror.Status) {
			s.note(m, st)
			s.describe(m, gather) // the documents from the VFS may differ from the bridge's
			s.o.Publish(m.space, m.id, "cap.vfs.synced", syncedEvent{m.id, string(st.Standing), st.Pending, st.LastSync})
		},
	})
}

// ruleOf lets the bridge's own documents win over copies of them.
func ruleOf(path string) mirror.Rule {
	for _, name := range documents {
		if path == name {
			return mirror.LocalWins
		}
	}
	return ""
}

// find opens the mirror of a Cap of the caller's space, until release.
func (s *Service) find(ctx context.Context, who *protocol.Principal, id protocol.CapID, write bool) (m *capMirror, engine *mirror.Engine, release func(), err error) {
	exists, read, mayWrite := s.o.Channels.May(who, id)
	switch {
	case !exists:
		return nil, nil, nil, noCap(id)
	case !read || write && !mayWrite:
		return nil, nil, nil, protocol.Errorf(protocol.VFSPermission, "the files of Cap %q are not yours", id).With("cap_id", string(id))
	}
	at := ref{who.Home(), id}
	s.mu.Lock()
	m = s.mirrors[at]
	s.mu.Unlock()
	if m == nil {
		return nil, nil, nil, protocol.Errorf(protocol.InvalidState, "Cap %q is not mirrored", id).
			With("cap_id", string(id)).With("reason", "sync_enabled is false, or too many Caps are mirrored")
	}
	engine, release, err = s.use(ctx, m)
	return m, engine, release, err
}

// use opens a mirror for a command. Work that the command leaves is done once the
// mirror is released.
func (s *Service) use(ctx context.Context, m *capMirror) (engine *mirror.Engine, release func(), err error) {
	engine, err = s.acquire(ctx, m)
	if err != nil {
		return nil, nil, protocol.Wrap(protocol.SyncFailed, err, unopened)
	}
	return engine, func() {
		s.note(m, engine.Status())
		s.release(m)
		s.ask(m, 0)
	}, nil
}

func noCap(id protocol.CapID) error {
	return protocol.Errorf(protocol.NotFound, "there is no Cap %q", id).With("cap_id", string(id))
}

// The data of the events of a mirror.
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
