package evidence

import (
	"context"
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

// Options configure a [Log]. The zero value is usable.
type Options struct {
	// SyncAlways has Claim and Keep return only when the disk has their data.
	SyncAlways bool

	// Life is the time that a claim may matter at most: the longest timeout of a
	// request and twice the allowed clock skew. Claims that expire later are
	// kept that long. Default 12 min.
	Life time.Duration

	// MaxClaims is the greatest size of the segments with valid claims, in bytes;
	// default 4 GiB. Beyond it claiming fails with 5001 until some claims have expired.
	MaxClaims int64

	// SegmentBytes is the size from which on a segment is ended, default 64
	// MiB.
	SegmentBytes int64

	// GroupBlocks has every group be a block of its own, for a log whose groups
	// are shipped one by one.
	GroupBlocks bool

	// AcceptLoss has Open succeed in spite of damaged claims.
	AcceptLoss bool

	Log        *slog.Logger
	Registerer prometheus.Registerer // nil keeps the metrics unregistered

	create func(root *os.Root, name string) (file, error) // tests make disks fail
}

func (o *Options) defaults() {
	if o.Life == 0 {
		o.Life = 12 * time.Minute
	}
	if o.MaxClaims == 0 {
		o.MaxClaims = 4 << 30
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.create == nil {
		o.create = createFile
	}
}

// blockBytes is the size from which on a block is ended.
func (o *Options) blockBytes() int {
	if o.GroupBlocks {
		return 1
	}
	return int(min(512<<10, max(o.SegmentBytes/4, 1)))
}

// A Chain chains and seals the groups that hold entries. Its methods are called
// by one goroutine at a time.
type Chain interface {
	// Header writes the header of a group of entries that goes to the end of
	// the chain. It has ChainHeaderSize bytes.
	Header(header []byte, entries int)
	// Seal returns the seal of that group; the sealed bytes include its header.
	Seal(sealed []byte) [SealSize]byte
	// Stored is called when the group is in the log: the next one follows it.
	Stored(entries int)
}

// A Log keeps claims and entries. It implements [commands.Claims]. Its methods
// may be called from several goroutines.
type Log struct {
	options Options
	log     *slog.Logger
	root    *os.Root
	metrics *metrics
	chain   Chain // nil until entries are added
	began   time.Time
	age     time.Duration // of the log when it was opened

	used    atomic.Int64 // bytes on disk
	claimed atomic.Int64 // of them in segments with claims that are of use
	waiting atomic.Int64 // bytes of entries that are not written
	taken   atomic.Uint64
	kept    atomic.Uint64 // number of written entries

	mu        sync.Mutex
	closed    bool
	reader    bool // nothing is written
	writing   bool // a goroutine writes, and will see to the batch that gathers meanwhile
	gathering *batch
	spare     *batch
	retained  []*piece   // pieces of failed writes, to be written first
	failures  uint64     // of writes
	wake      *sync.Cond // a write has ended
	lanes     []lane
	segments  []*segment // all, the oldest first; active is the last
	calls     sync.WaitGroup
	scratch   []byte

	// The state of the gathering batch, guarded by mu.
	block      uint32 // the current one
	blockBytes int    // that it has so far
	claimNames dictionary
	entryNames dictionary
	roll       bool // the active segment is to be ended

	// The state of the writer.
	active *segment // nil if it could not be made

	left    []commands.Claim // by an earlier process and still valid at Open
	failing atomic.Bool      // the last write did
	unnamed atomic.Bool      // the names of new segments may not be on the disk
	probed  atomic.Int64     // when Check last wrote, in Unix nanoseconds

	removing sync.Mutex // of segments
	tending  sync.WaitGroup
	stir     chan struct{} // holds a token when entries wait to be written or synced
	untidy   chan struct{} // holds a token when there is a segment to close
	stop     chan struct{}
}

var (
	_ commands.Claims     = (*Log)(nil)
	_ commands.ClaimQueue = (*Log)(nil)
)

// Open opens the log in a folder, which it creates if missing, and reads the claims of
// earlier processes. The caller must ensure that no other process has the log open.
func Open(dir string, options Options) (_ *Log, err error) {
	l, err := prepare(dir, options)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = l.root.Close()
		}
	}()
	if err := l.load(true); err != nil {
		return nil, err
	}
	if l.active, err = l.begin(l.block+1, time.Now()); err != nil { // better now than at the first claim
		return nil, fmt.Errorf("evidence: make a segment: %w", err)
	}
	l.metrics = newMetrics(l)
	if err := l.metrics.register(options.Registerer); err != nil {
		_ = l.active.file.Close()
		return nil, fmt.Errorf("evidence: register metrics: %w", err)
	}
	l.tending.Go(l.tend)
	return l, nil
}

func prepare(dir string, options Options) (*Log, error) {
	options.defaults()
	if err := os.MkdirAll(dir, 0o700); err != nil { //nolint:gosec // where the data is, is for the operator to say
		return nil, fmt.Errorf("evidence: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	l := &Log{
		options: options,
		log:     options.Log,
		root:    root,
		began:   time.Now(),
		lanes:   make([]lane, lanes()),
		stir:    make(chan struct{}, 1),
		untidy:  make(chan struct{}, 1),
		stop:    make(chan struct{}),
	}
	l.wake = sync.NewCond(&l.mu)
	l.gathering, l.spare = newBatch(len(l.lanes)), newBatch(len(l.lanes))
	return l, nil
}

// OpenReader opens the log in a folder of a bridge that does not run, to read
// it: nothing is written, and nothing mended.
func OpenReader(dir string) (*Log, error) {
	l, err := prepare(dir, Options{AcceptLoss: true})
	if err != nil {
		return nil, err
	}
	l.reader = true
	if err := l.load(false); err != nil {
		return nil, errors.Join(err, l.root.Close())
	}
	return l, nil
}

// Chain sets the chain of groups of entries. Call it once, before any entry is added.
func (l *Log) Chain(c Chain) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chain = c
}

// Close waits for the claims under way, refuses others with 5002, writes the waiting
// entries and closes the files. Entries that cannot be written are lost, with an error
// in the log.
func (l *Log) Close() error {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.mu.Unlock()
	if again {
		return nil
	}
	if l.reader {
		return l.root.Close()
	}
	l.Flush()
	l.calls.Wait()
	l.mu.Lock()
	l.keep() // though writing may have failed before
	l.mu.Unlock()
	close(l.stop)
	l.tending.Wait()
	l.finishActive()
	l.tidy(time.Now())
	l.metrics.unregister(l.options.Registerer)
	lost := l.taken.Load() - l.kept.Load()
	err := l.root.Close()
	if lost > 0 {
		err = errors.Join(err, fmt.Errorf("evidence: %d entries could not be written", lost))
	}
	return err
}

// Pending yields the claims that earlier processes left behind and that have
// not expired.
func (l *Log) Pending(yield func(commands.Claim) bool) {
	now := time.Now()
	for _, c := range l.left {
		if c.Expires.After(now) && !yield(c) {
			return
		}
	}
}

// older is the age of the log, by the monotonic clock.
func (l *Log) older(now time.Time) time.Duration { return l.age + now.Sub(l.began) }

// until is the time when a claim that expires has done so by the age of the log.
func (l *Log) until(expires, now time.Time, age time.Duration) time.Duration {
	return age + min(max(expires.Sub(now), 0), l.options.Life)
}

// Waiting is the number of bytes of entries that are not written.
func (l *Log) Waiting() int64 { return l.waiting.Load() }

// Failing reports whether the last write has failed.
func (l *Log) Failing() bool { return l.failing.Load() }

// probeEvery is the interval at which [Log.Check] writes at most.
const probeEvery = time.Second

// Check returns the reason why claims cannot be written, nil if no failure is known.
// After a failure it probes the disk with an expired claim.
func (l *Log) Check() error {
	if !l.failing.Load() {
		return nil
	}
	now := time.Now()
	if last := l.probed.Load(); now.UnixNano()-last > int64(probeEvery) && l.probed.CompareAndSwap(last, now.UnixNano()) {
		_ = l.Claim(context.Background(), commands.Claim{Principal: "bridge", RequestID: "probe", Expires: now})
	}
	if l.failing.Load() {
		return protocol.Errorf(protocol.StoreUnavailable, "claims cannot be written to disk: commands that act on the world are refused")
	}
	return nil
}
