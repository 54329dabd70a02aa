package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A Level says which calls are recorded. Events that parts of the bridge
// record themselves always are, unless the level is [Off].
type Level string

// The levels.
const (
	Off     Level = "off"
	Changes Level = "changes" // what changes or acts, and what is refused for reasons of security
	All     Level = "all"     // reads too
)

// Options configure a [Trail]. Log and Key are required.
type Options struct {
	Log      Log
	Key      *Key
	HeadFile string // where the head of the chain is noted, "" for nowhere
	Births   Births // where the chain's birth is recorded; optional
	// AcceptLoss has the trail count as it is, although its birth was recorded
	// otherwise. Without it, that stays a problem.
	AcceptLoss bool
	Spool      string // files that have what waits to be stored, by the beginning of their names; "" for none
	// SyncAlways has entries in the spool on the disk before the answers they
	// are about leave.
	SyncAlways bool
	BridgeID   string
	Level      Level         // default Changes
	KeepFor    time.Duration // age at which entries are forgotten, 0 for never
	KeepSize   uint64        // bytes over which the oldest are, 0 for any
	// Open opens the parameters that were sealed, for those who may query the
	// trail; nil for none.
	Open    func(sealed []byte) (params json.RawMessage, err error)
	Publish func(Entry) // tells operators of entries of security; must not block
	Logger  *slog.Logger
	// Registerer receives the metrics; optional.
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Bounds of what waits to be stored.
const (
	admitBytes = 8 << 20  // beyond which nothing new is begun and refusals are counted only
	hardBytes  = 64 << 20 // beyond which nothing is taken: more than all calls in flight can come to
	groupBytes = 512 << 10
	maxEntry   = 16 << 10 // that any entry stays below, by the bounds of its parts
)

// How long entries wait for others to be stored with.
const (
	linger       = 100 * time.Millisecond
	lingerUrgent = 5 * time.Millisecond // for changes of state and events
)

// A Trail is the audit trail of one bridge. It is a [commands.Auditor] and a
// [Recorder]; its methods may be called from several goroutines.
type Trail struct {
	o       Options
	metrics *metrics
	crier   crier
	repeats *repeats
	scratch sync.Pool // of *scratch

	hurry  chan struct{} // holds a token when what waits should be stored soon
	begin  chan struct{} // the same when something waits at all
	cancel context.CancelFunc
	done   chan struct{}

	waiting atomic.Int64 // bytes that were taken and are not stored
	failing atomic.Bool  // the log does not take groups at the moment
	held    atomic.Bool  // some of them are not in the spool either, see Keep

	mu       sync.Mutex
	pending  batch
	spool    *spool // nil without one
	gap      gap
	taken    uint64        // entries
	written  uint64        // of them, to the spool
	stored   uint64        // of them
	progress chan struct{} // closed when stored grows
	closed   bool

	syncing sync.Mutex
	synced  uint64               // entries that are on the disk, under syncing
	sync    func(*os.File) error // is File.Sync, but in tests

	head  Head // of what is stored; the writer's
	noted Head // in the file

	unnoted bool // the last attempt to write it there failed
	born    bornState
	spare   batch

	problems atomic.Int64 // found at start, or by the last verification

	group   []byte // what the writer makes groups in
	entries [][]byte
}

// A batch is entries as JSON, one after the other.
type batch struct {
	data []byte
	ends []int
	at   []time.Time
	told []bool // entries of security
}

func (b *batch) reset() { b.data, b.ends, b.at, b.told = b.data[:0], b.ends[:0], b.at[:0], b.told[:0] }

func (b *batch) entry(i int) []byte {
	from := 0
	if i > 0 {
		from = b.ends[i-1]
	}
	return b.data[from:b.ends[i]]
}

// A gap is what was not recorded because too much waited.
type gap struct {
	entries  uint64
	from, to time.Time
}

type scratch struct {
	entry, params []byte
	clock         clock
}

// Open continues the trail that a log holds, and begins to write. It fails if
// the log cannot be read, but not if something is missing: that is recorded,
// and found by [Trail.Verify].
func Open(ctx context.Context, o Options) (*Trail, error) {
	if o.Log == nil || o.Key == nil {
		return nil, errors.New("audit: a log and a key are required")
	}
	o.Level = cmp.Or(o.Level, Changes)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Trail{
		o:        o,
		hurry:    make(chan struct{}, 1),
		begin:    make(chan struct{}, 1),
		repeats:  newRepeats(),
		done:     make(chan struct{}),
		sync:     (*os.File).Sync,
		progress: make(chan struct{}),
	}
	t.crier.publish = o.Publish
	t.scratch.New = func() any { return new(scratch) }
	t.metrics = newMetrics(t, o.Registerer)
	if err := t.openSpool(ctx); err != nil {
		return nil, err
	}
	if err := t.resume(ctx); err != nil {
		return nil, errors.Join(err, t.spool.close())
	}
	run, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	go t.write(run)
	return t, nil
}

// openSpool takes up what an earlier process has left.
func (t *Trail) openSpool(ctx context.Context) error {
	if t.o.Spool == "" || t.o.Level == Off {
		return nil
	}
	files, left, err := openSpool(t.o.Spool)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if err := t.recover(ctx, left); err != nil {
		return errors.Join(err, files.close())
	}
	t.spool = files // what was recovered is in its files already
	return nil
}

// Head is the end of what is stored.
func (t *Trail) Head() Head {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.head
}

// resume finds the head to go on from.
func (t *Trail) resume(ctx context.Context) error {
	noted, err := readNote(t.o.Key, t.o.HeadFile)
	if err != nil {
		t.o.Logger.Error("audit: the note of where the trail ended cannot be used", "error", err)
	}
	last, err := t.lastGroup(ctx)
	if err != nil {
		return fmt.Errorf("audit: read the end of the trail: %w", err)
	}
	if last != nil && last.chain == t.o.Key.chain {
		t.head = last.head()
	}
	born, err := t.checkBirth(ctx)
	if err != nil {
		return err
	}
	if born.Seq > noted.Seq {
		noted = born
	}
	if noted.Seq > t.head.Seq {
		t.problems.Store(1)
		// The chain goes on where it had been, so that what is missing leaves
		// a hole that every later verification finds.
		lost := Entry{Event: "audit.lost", Code: string(protocol.Internal), Security: true,
			Reason:  "entries that were stored are not there any more",
			Details: map[string]string{"from": number(t.head.Seq + 1), "to": number(noted.Seq)}}
		t.o.Logger.Error("audit: the end of the trail is missing", "from", t.head.Seq+1, "to", noted.Seq)
		t.head = noted
		t.Record(ctx, lost)
	}
	t.noted = t.head
	t.Record(ctx, Entry{Event: "audit.started", Code: OK, Details: map[string]string{"bridge": t.o.BridgeID, "level": string(t.o.Level)}})
	return nil
}

// lastGroup is the last group that can be read, nil if there is none.
func (t *Trail) lastGroup(ctx context.Context) (*group, error) {
	bounds, err := t.o.Log.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	for at := bounds.Last; at >= bounds.First && at > 0; at-- {
		data, err := t.o.Log.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		if g, err := decodeGroup(data); err == nil {
			return g, nil
		}
	}
	return nil, nil
}

// Record implements [Recorder].
func (t *Trail) Record(_ context.Context, e Entry) { t.record(e, false) }

// RecordHeld is Record for what nobody hears of before [Trail.Keep] is called.
// It does not wait for the disk.
func (t *Trail) RecordHeld(_ context.Context, e Entry) { t.record(e, true) }

func (t *Trail) record(e Entry, held bool) {
	if t.o.Level == Off {
		return
	}
	if e.Time.IsZero() {
		e.Time = t.o.Now()
	}
	if e.Event == LoginFailed && e.Details["repeated"] == "" && t.absorbed(&e) {
		return
	}
	if e.Principal == "" && e.Kind == "" {
		e.Kind = protocol.KindBridge
	}
	must := e.Code == OK || e.Security && e.Event != LoginFailed
	s, ok := t.scratch.Get().(*scratch)
	if !ok {
		s = new(scratch)
	}
	defer t.scratch.Put(s)
	l := line{Entry: e, clock: &s.clock}
	s.entry = l.append(s.entry[:0])
	t.enqueue(s.entry, taken{at: l.Time, told: l.Security, urgent: true, must: must, held: held})
}

// absorbed reports whether an entry is counted with others like it instead of
// being written.
func (t *Trail) absorbed(e *Entry) bool {
	absorbed := t.repeats.absorb(e)
	if absorbed {
		t.metrics.repeats.Inc()
	}
	return absorbed
}

// How an entry was taken.
type taken struct {
	at     time.Time
	told   bool // to operators
	urgent bool // to be stored soon
	must   bool // be recorded, even when too much waits
	held   bool // whoever waits for it calls Keep
}

func (t *Trail) enqueue(entry []byte, how taken) {
	limit := int64(admitBytes)
	if how.must {
		limit = hardBytes
	}
	t.mu.Lock()
	if t.waiting.Load() > limit || t.closed || len(entry) > maxEntry {
		t.gap.add(how.at)
		t.mu.Unlock()
		t.metrics.lost.Inc()
		return
	}
	first := len(t.pending.ends) == 0
	t.spool.add(entry)
	t.pending.data = append(t.pending.data, entry...)
	t.pending.ends = append(t.pending.ends, len(t.pending.data))
	t.pending.at = append(t.pending.at, how.at)
	t.pending.told = append(t.pending.told, how.told)
	t.taken++
	if how.held {
		t.held.Store(true)
	} else {
		t.spool.write()
		t.written = t.taken
	}
	big := len(t.pending.data) >= groupBytes/2
	t.mu.Unlock()
	t.waiting.Add(int64(len(entry)))
	if first {
		signal(t.begin)
	}
	if how.urgent || big {
		signal(t.hurry)
	}
	if !how.held {
		t.settle()
	}
}

// Keep puts into the spool what was recorded of calls that are held until
// then, all at once. It is called before any of their answers leaves.
func (t *Trail) Keep() {
	if !t.held.Load() { // nearly always: many things leave
		return
	}
	t.mu.Lock()
	t.spool.write()
	t.written = t.taken
	if !t.o.SyncAlways || t.spool == nil {
		t.held.Store(false) // and not before: others who look go on at once
	}
	t.mu.Unlock()
	t.settle()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (g *gap) add(at time.Time) {
	if g.entries == 0 {
		g.from = at
	}
	g.entries++
	g.to = at
}

// Check says why entries are not stored at the moment, nil if they are.
func (t *Trail) Check() error {
	if t.failing.Load() {
		return protocol.Errorf(protocol.StoreUnavailable, "the audit trail cannot be stored: its entries wait")
	}
	return nil
}

// Flush returns when everything that was recorded before is stored.
func (t *Trail) Flush(ctx context.Context) error {
	t.mu.Lock()
	want := t.taken
	t.mu.Unlock()
	for {
		t.mu.Lock()
		stored, progress := t.stored, t.progress
		t.mu.Unlock()
		if stored >= want {
			return nil
		}
		signal(t.hurry)
		select {
		case <-progress:
		case <-ctx.Done():
			return protocol.Wrap(protocol.StoreUnavailable, ctx.Err(), "the audit trail is not stored in time")
		}
	}
}

// Close stores what waits and stops. Nothing is recorded afterwards. What ctx
// leaves no time for is lost, and said so.
func (t *Trail) Close(ctx context.Context) error {
	t.recordRepeats(t.o.Now().Add(repeatWindow)) // all of them
	t.Record(ctx, Entry{Event: "audit.stopped", Code: OK})
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	err := t.Flush(ctx)
	t.cancel()
	<-t.done
	if kept := t.keepBirth(ctx); kept != nil {
		t.o.Logger.Warn("audit: how far the trail has come is not recorded", "error", kept)
	}
	t.mu.Lock()
	lost := t.taken - t.stored
	t.mu.Unlock()
	t.metrics.unregister(t.o.Registerer)
	err = errors.Join(err, t.spool.close())
	if err != nil {
		return fmt.Errorf("%d entries of the audit trail are not stored: %w", lost, err)
	}
	return nil
}

var (
	_ commands.Auditor = (*Trail)(nil)
	_ Recorder         = (*Trail)(nil)
)
