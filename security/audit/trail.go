package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/protocol"
)

// A Level says which calls are recorded. Events that parts of the bridge
// record themselves always are, unless the level is [Off].
type Level string

// The levels.
const (
	Off     Level = "off"
	Changes Level = "changes" // changes, acts, and refusals for reasons of security
	All     Level = "all"     // reads too
)

// Options configure a [Trail]. Local and Key are required.
type Options struct {
	// Local is the log that entries are written to before their answers leave.
	// One trail is in it.
	Local *evidence.Log
	// Log keeps the trail, if that is not Local: then every group is shipped
	// there, and Local has the entries on their way. Local must have been opened with
	// a block for each group.
	Log      RemoteLog
	Key      *Key
	HeadFile string // the file of the noted head of the chain, "" for none
	Births   Births // where the chain's birth is recorded; optional
	// AcceptLoss accepts the trail as it is, although its birth was recorded
	// otherwise. Without it, that stays a problem.
	AcceptLoss bool
	// Earlier are files with entries that an earlier version took and did not
	// store, by the beginning of their names; "" for none.
	Earlier  string
	BridgeID string
	Level    Level         // default Changes
	KeepFor  time.Duration // age at which entries are forgotten, 0 for never
	KeepSize uint64        // bytes over which the oldest are, 0 for any
	// Open opens sealed parameters, for callers that may query the trail; nil for none.
	Open    func(sealed []byte) (params json.RawMessage, err error)
	Publish func(Entry) // publishes entries of security to operators; must not block
	Logger  *slog.Logger
	// Registerer receives the metrics; optional.
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Bounds of the entries that wait to be stored.
const (
	admitBytes = 8 << 20  // beyond which nothing new is begun and refusals are counted only
	hardBytes  = 64 << 20 // beyond which nothing is taken: more than all calls in flight can come to
)

// A Trail is the audit trail of one bridge. It is a [commands.Auditor] and a
// [Recorder]; its methods may be called from several goroutines.
type Trail struct {
	o       Options
	log     Log // that keeps the trail
	metrics *metrics
	crier   crier
	repeats *repeats
	records sync.Pool // of *record

	memoRecords sync.Pool // of *memoRecord

	work   chan struct{} // holds a token when there is something to tell or to ship
	cancel context.CancelFunc
	done   chan struct{}

	added    uint64       // entries that were given to the log; guarded by the log's lock
	shipping atomic.Int64 // bytes of groups that are in Local and not in Log
	failing  atomic.Bool  // Log does not take them at the moment

	mu        sync.Mutex
	head      Head // of the stored entries
	stored    uint64
	shipped   uint64        // of them, those that were shipped
	shippedTo Head          // head of the shipped entries
	progress  chan struct{} // closed when shipped grows
	told      []told
	gap       gap
	closed    bool

	next      Head  // of the group that is being sealed; the log's writer's
	sealBytes int64 // that it has

	sending sync.Mutex
	sent    uint64 // guarded by sending: block of Local that was shipped last
	noted   Head   // in the file
	unnoted bool   // the last attempt to write it there failed
	born    bornState

	problems atomic.Int64 // found at start, or by the last verification
}

// A told entry is one that is published to operators once it is stored.
type told struct {
	number uint64 // among all that were added
	entry  Entry
}

// A gap counts the entries that were not recorded because too much waited.
type gap struct {
	entries  uint64
	from, to time.Time
}

// Open continues the trail that a log holds, and begins to record. It fails if
// the log cannot be read, but not if something is missing: that is recorded,
// and found by [Trail.Verify].
func Open(ctx context.Context, o Options) (*Trail, error) {
	if o.Local == nil || o.Key == nil {
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
		work:     make(chan struct{}, 1),
		repeats:  newRepeats(),
		done:     make(chan struct{}),
		progress: make(chan struct{}),
	}
	t.log = o.Log
	if o.Log == nil {
		t.log = o.Local
	}
	t.crier.publish = o.Publish
	t.records.New = func() any { return new(record) }
	t.metrics = newMetrics(t, o.Registerer)
	o.Local.Chain(t)
	left, damaged, err := t.leftovers(ctx)
	if err == nil {
		err = t.resume(ctx)
	}
	if err != nil {
		return nil, err
	}
	t.takeUp(ctx, left, damaged)
	run, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	go t.run(run)
	return t, nil
}

// ships reports whether the trail is kept elsewhere than in the local log.
func (t *Trail) ships() bool { return t.o.Log != nil }

// Head is the end of the stored entries.
func (t *Trail) Head() Head {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ships() {
		return t.shippedTo
	}
	return t.head
}

// resume finds the head to go on from.
func (t *Trail) resume(ctx context.Context) error {
	noted, err := readNote(t.o.Key, t.o.HeadFile)
	if err != nil {
		t.o.Logger.Error("audit: the note of where the trail ended cannot be used", "error", err)
	}
	last, err := lastGroup(ctx, t.log)
	if err != nil {
		return fmt.Errorf("audit: read the end of the trail: %w", err)
	}
	if last != nil && last.chain == t.o.Key.chain {
		t.head = last.head()
	}
	t.shippedTo = t.head
	born, err := t.checkBirth(ctx)
	if err != nil {
		return err
	}
	if born.Seq > noted.Seq {
		noted = born
	}
	if noted.Seq > t.head.Seq {
		t.problems.Store(1)
		// The chain goes on where it had been, so that missing entries leave
		// a hole that every later verification finds.
		lost := Entry{Event: "audit.lost", Code: string(protocol.Internal), Security: true,
			Reason:  "entries that were stored are not there any more",
			Details: map[string]string{"from": number(t.head.Seq + 1), "to": number(noted.Seq)}}
		t.o.Logger.Error("audit: the end of the trail is missing", "from", t.head.Seq+1, "to", noted.Seq)
		t.head, t.shippedTo = noted, noted
		t.Record(ctx, lost)
	}
	t.noted = t.head
	t.Record(ctx, Entry{Event: started, Code: OK, Details: map[string]string{"bridge": t.o.BridgeID, "level": string(t.o.Level)}})
	return nil
}

// Header implements [evidence.Chain].
func (t *Trail) Header(header []byte, entries int) {
	t.mu.Lock()
	head := t.head
	t.mu.Unlock()
	t.o.Key.header(header, head, entries)
	t.next.Seq = head.Seq + uint64(entries)
}

// Seal implements [evidence.Chain].
func (t *Trail) Seal(sealed []byte) (seal [evidence.SealSize]byte) {
	t.next.Hash, t.sealBytes = hashGroup(sealed), int64(len(sealed))
	return t.o.Key.sealGroup(t.next.Hash)
}

// Stored implements [evidence.Chain].
func (t *Trail) Stored(entries int) {
	t.mu.Lock()
	t.head = t.next
	t.stored += uint64(entries)
	due := len(t.told) > 0 || t.ships()
	t.mu.Unlock()
	if t.ships() {
		t.shipping.Add(t.sealBytes)
	}
	t.metrics.entries.Add(float64(entries))
	if due {
		signal(t.work)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Record implements [Recorder].
func (t *Trail) Record(_ context.Context, e Entry) { t.record(e, false) }

// RecordHeld is Record for a call whose answer is held until [Trail.Keep] is
// called. It does not wait for the disk.
func (t *Trail) RecordHeld(_ context.Context, e Entry) { t.record(e, true) }

// RecordTogether is Record for goroutines of which many record at a time: those that are
// about to do so add their entries first, and one write keeps them all.
func (t *Trail) RecordTogether(_ context.Context, e Entry) {
	t.record(e, true)
	runtime.Gosched()
	t.Keep()
}

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
	r := t.newRecord(e)
	t.enqueue(r, must, held)
}

// Digest implements [commands.Digester].
func (t *Trail) Digest(params []byte) commands.Digest { return t.o.Key.Digest(params) }

// newRecord has an entry ready for the log. It is given back by enqueue.
func (t *Trail) newRecord(e Entry) *record {
	r, ok := t.records.Get().(*record)
	if !ok {
		r = new(record)
	}
	r.Entry = e
	return r
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

// waiting is the number of bytes that are not stored.
func (t *Trail) waiting() int64 { return t.o.Local.Waiting() + t.shipping.Load() }

// enqueue gives a record to the log. One that must be recorded is taken even when
// too many wait. Unless it is held, it is written at once.
func (t *Trail) enqueue(r *record, must, held bool) {
	limit := int64(admitBytes)
	if must {
		limit = hardBytes
	}
	r.added = &t.added
	if r.Security && !r.quiet && t.crier.publish != nil {
		r.told = func() { t.announce(r) }
	}
	if t.waiting() > limit || !t.o.Local.Add(r) {
		t.missed(r.Time)
	}
	r.giveBack(t)
	if !held {
		t.o.Local.Keep()
	}
}

// giveBack empties a record and keeps it for another entry.
func (r *record) giveBack(t *Trail) {
	*r = record{text: r.text, shown: r.shown}
	t.records.Put(r)
}

// announce notes an entry that is to be published to operators.
func (t *Trail) announce(r *record) {
	e := r.Entry
	if r.on != [2]string{} {
		e.Resource = r.on[0] + "/" + r.on[1]
	}
	if len(r.params) > 0 {
		e.Params = bytes.Clone(r.params)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = append(t.told, told{t.added, e})
}

// missed counts an entry that is not recorded.
func (t *Trail) missed(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gap.add(at)
	t.metrics.lost.Inc()
}

// Keep has the entries written of calls that are held until
// then, all at once. It is called before any of their answers leaves.
func (t *Trail) Keep() { t.o.Local.Keep() }

func (g *gap) add(at time.Time) {
	if g.entries == 0 {
		g.from = at
	}
	g.entries++
	g.to = at
}

// Check fails while entries are not stored.
func (t *Trail) Check() error {
	if t.failing.Load() || t.o.Local.Failing() {
		return protocol.Errorf(protocol.StoreUnavailable, "the audit trail cannot be stored: its entries wait")
	}
	return nil
}

// Flush returns when everything that was recorded before is stored.
func (t *Trail) Flush(ctx context.Context) error {
	if err := t.o.Local.Settle(ctx); err != nil {
		return late(ctx)
	}
	return t.shippedAll(ctx, 0)
}

func late(ctx context.Context) error {
	return protocol.Wrap(protocol.StoreUnavailable, ctx.Err(), "the audit trail is not stored in time")
}

// shippedAll returns when the whole local log is stored in the trail's log. It
// fails at the end of ctx, and when nothing is shipped for longer than patience,
// unless that is 0.
func (t *Trail) shippedAll(ctx context.Context, patience time.Duration) error {
	if !t.ships() {
		return nil
	}
	t.mu.Lock()
	want := t.stored
	t.mu.Unlock()
	for {
		t.mu.Lock()
		shipped, progress := t.shipped, t.progress
		t.mu.Unlock()
		if shipped >= want {
			return nil
		}
		signal(t.work)
		var standstill <-chan time.Time
		if patience > 0 {
			standstill = time.After(patience)
		}
		select {
		case <-progress:
		case <-standstill:
			return late(ctx)
		case <-ctx.Done():
			return late(ctx)
		}
	}
}

// closePatience is the time that a trail that closes waits for the next entry to be
// shipped.
const closePatience = 5 * time.Second

// Close stores the waiting entries and stops. Nothing is recorded afterwards. Entries that ctx
// leaves no time for are lost unless the local log has them, and the loss is logged. Close does not
// wait for entries of the local log that the trail's log does not take: when all bridges of a
// cluster are stopped, the last of them find too few to store anything, and the next start ships
// it.
func (t *Trail) Close(ctx context.Context) error {
	t.recordRepeats(t.o.Now().Add(repeatWindow)) // all of them
	t.Record(ctx, Entry{Event: stopped, Code: OK})
	unwritten, unshipped := t.o.Local.Settle(ctx), t.shippedAll(ctx, closePatience)
	t.cancel()
	<-t.done
	t.metrics.unregister(t.o.Registerer)
	switch {
	case unwritten != nil:
		return fmt.Errorf("%d bytes of the audit trail are not stored: %w", t.waiting(), late(ctx))
	case unshipped != nil:
		t.o.Logger.Warn("audit: entries wait on this machine until the bridge starts again", "bytes", t.shipping.Load())
		return nil
	}
	if err := t.keepBirth(ctx); err != nil {
		t.o.Logger.Warn("audit: how far the trail has come is not recorded", "error", err)
	}
	return nil
}

var (
	_ commands.Auditor = (*Trail)(nil)
	_ Recorder         = (*Trail)(nil)
	_ evidence.Chain   = (*Trail)(nil)
)
