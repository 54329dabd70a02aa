package mirror

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// Options configure an [Engine]. Dir, Remote and Breaker are needed; zero values
// of the others are the defaults.
type Options struct {
	Dir     string // the folder, made if it is not there
	Remote  Remote
	Breaker *Breaker // the way to Remote

	Rule     Rule                   // the side that wins a conflict; remote_wins
	RuleOf   func(path string) Rule // for single paths; "" is Rule
	Origin   string                 // names this end in the names of conflicting copies
	Interval time.Duration          // between two looks at everything; 1 minute
	RealTime bool                   // changes are also carried over as they happen
	Rarely   time.Duration          // instead of a shorter Interval while the system tells of all changes
	Scan     time.Duration          // instead of a longer Interval in real time while it does not; 10 seconds
	Poll     time.Duration          // how often the VFS is asked for changes in real time; 1 second, never if negative
	Patience time.Duration          // how long a write waits for the VFS; 2 seconds
	Workers  int                    // files transferred at once; 8

	Watch *Watch // tells of changes in the folder; nil for one that Run makes
	Rest  *Rest  // of the last engine of the folder; nil to look at everything first

	Ignore    string        // path of the file of ignored patterns, for the folder it is in; IgnoreFile
	KeepAge   time.Duration // how long copies are kept that lost conflicts; 90 days, for good if negative
	KeepBytes int64         // how much all of them may take, else the oldest go; 1 GiB, any if negative

	TombstoneLife time.Duration // how long deletions are remembered; 30 days
	OnConflict    func(Loser)   // called after a conflict was resolved; must not block
	OnRound       func(Status)  // called after every round that did something; must not block
	OnWake        func()        // called when there is something to do; must not block
	Metrics       *Metrics
	Log           *slog.Logger
	Now           func() time.Time
}

func (o *Options) setDefaults() error {
	if o.Dir == "" || o.Remote == nil || o.Breaker == nil {
		return errors.New("a mirror needs a folder, a VFS and a breaker")
	}
	if o.Rule == "" {
		o.Rule = RemoteWins
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&o.Interval, time.Minute}, {&o.Scan, 10 * time.Second},
		{&o.Patience, 2 * time.Second}, {&o.TombstoneLife, 30 * 24 * time.Hour},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	if o.KeepAge == 0 {
		o.KeepAge = 90 * 24 * time.Hour
	}
	if o.KeepBytes == 0 {
		o.KeepBytes = 1 << 30
	}
	if o.Ignore == "" {
		o.Ignore = IgnoreFile
	}
	if o.Workers <= 0 {
		o.Workers = 8
	}
	if o.RuleOf == nil {
		o.RuleOf = func(string) Rule { return "" }
	}
	if o.OnConflict == nil {
		o.OnConflict = func(Loser) {}
	}
	if o.OnWake == nil {
		o.OnWake = func() {}
	}
	if o.OnRound == nil {
		o.OnRound = func(Status) {}
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o.Rule.Check()
}

// An Engine mirrors one folder. Its methods may be called by many goroutines.
type Engine struct {
	o      Options
	folder *tree.Folder
	lock   *os.File
	state  *state
	locks  pathLocks
	work   *backlog
	forget func() // of the breaker
	next   schedule
	ignore atomic.Pointer[patterns]
	chunks *chunkCache

	mu          sync.Mutex
	watch       *Watch
	ignoreStamp tree.Stamp // of the file that ignore was read from
	rescan      bool       // everything is to be looked at soon
	trimmed     time.Time  // when kept copies were looked through
	clock       clock
	everSeen    bool   // the VFS's files were listed once since the start
	revision    string // of the VFS when they were listed last
	listed      time.Time
	returned    bool     // the VFS was away since then
	scanned     bool     // the folder was scanned once since the start
	dirs        []string // found by that
	twins       bool     // and names that some system takes for one
	rounds      int      // under way
	moved       int      // transfers since the last report

	turn     sync.Mutex // one round at a time
	clearing sync.Mutex // held while obstacles in the way of a path are cleared

	sender chan struct{} // holds one token: its taker sends the orders
	wake   chan struct{}
}

// Open opens the mirror of a folder. Another engine that has it open is [ErrInUse].
func Open(o Options) (*Engine, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	folder, err := tree.Open(o.Dir)
	if err != nil {
		return nil, err
	}
	e := &Engine{o: o, folder: folder, watch: o.Watch, work: newBacklog(), chunks: new(chunkCache), wake: make(chan struct{}, 1), sender: make(chan struct{}, 1)}
	if e.lock, err = lockFolder(folder.Root()); err == nil {
		err = folder.RemoveUnfinished()
	}
	if err == nil {
		e.state, err = openState(folder.Root(), o.Log)
	}
	if err != nil {
		return nil, errors.Join(err, e.release())
	}
	e.readIgnore()
	e.resume(o.Rest)
	e.clock = clock{last: e.state.meta.clock, wall: o.Now}
	for _, order := range e.state.waiting() {
		e.work.add(order.path)
	}
	for _, path := range e.state.unconfirmed() {
		e.work.add(path)
	}
	e.forget = o.Breaker.OnReturn(func() {
		e.work.hasten(o.Now())
		e.mu.Lock()
		e.returned = true
		e.mu.Unlock()
		e.Wake()
	})
	return e, nil
}

// Wake has [Engine.Run] look whether there is something to do.
func (e *Engine) Wake() {
	e.o.OnWake()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Dir is the folder that is mirrored.
func (e *Engine) Dir() string { return e.folder.Dir() }

// Close waits for the round under way and lets go of the folder.
func (e *Engine) Close() error {
	e.turn.Lock()
	defer e.turn.Unlock()
	e.forget()
	return errors.Join(e.state.close(), e.release())
}

func (e *Engine) release() error {
	err := e.folder.Close()
	if e.lock != nil {
		err = errors.Join(err, e.lock.Close())
	}
	return err
}

// now is the mirror's time: see [clock].
func (e *Engine) now() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.clock.now()
}

func (e *Engine) observe(t time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clock.observe(t.UnixNano())
}

// statRemote asks the VFS what it has at a path.
func (e *Engine) statRemote(ctx context.Context, path string) (r remote, err error) {
	err = e.o.Breaker.ask(ctx, func(ctx context.Context) error {
		f, err := e.o.Remote.Stat(ctx, path)
		if err == nil {
			r, err = remoteOf(f), sane(f, path)
		}
		return err
	})
	if stale(err) {
		return remote{File: File{Path: path}}, nil
	}
	return r, err
}
