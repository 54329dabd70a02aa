package claimlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Options configure a [Log]. The zero value is usable.
type Options struct {
	// SyncAlways has Claim return only when the claim is on disk.
	SyncAlways bool

	// Life is how long a claim may matter at most: the longest timeout of a
	// request and twice the allowed clock skew. Claims that expire later are
	// kept that long. Default 12 min.
	Life time.Duration

	// MaxBytes bounds what the claims take on disk, default 1 GiB. When they
	// would take more, claiming fails with 5001 until some have expired.
	MaxBytes int64

	Log        *slog.Logger
	Registerer prometheus.Registerer // nil keeps the metrics unregistered

	create func(root *os.Root, name string) (file, error) // tests make disks fail
}

// maxSegment is the size a segment is not to exceed, unless a single batch
// does. Each is deleted as a whole, hence it is a small part of what all may
// take.
const maxSegment = 8 << 20

func (o *Options) defaults() {
	if o.Life == 0 {
		o.Life = 12 * time.Minute
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.create == nil {
		o.create = createFile
	}
}

// A Log keeps claims. It implements [commands.Claims]. Its methods may be
// called from several goroutines.
type Log struct {
	options Options
	log     *slog.Logger
	root    *os.Root
	metrics *metrics
	used    atomic.Int64 // bytes on disk

	mu        sync.Mutex
	closed    bool
	writing   bool // somebody writes, and will see to what gathers meanwhile
	gathering *batch
	spare     *batch
	lanes     []lane
	finished  []*segment // to which nothing more is written
	calls     sync.WaitGroup

	// Of whoever writes.
	active *segment // nil if none could be made
	next   uint64   // number of the next segment

	failing atomic.Bool  // the last write did
	probed  atomic.Int64 // when Check last wrote, in Unix nanoseconds

	tidying  sync.WaitGroup
	untidy   chan struct{} // holds a token when there is a segment to close
	stopTidy chan struct{}
}

var _ commands.Claims = (*Log)(nil)

// Open opens the log in a folder, which is made if it is not there, and reads
// the claims that an earlier process left. No other process may have it open:
// that is for the caller to make sure of.
func Open(dir string, options Options) (_ *Log, err error) {
	options.defaults()
	root, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("claimlog: %w", err)
	}
	l := &Log{
		options:  options,
		log:      options.Log,
		root:     root,
		lanes:    make([]lane, lanes()),
		next:     1,
		untidy:   make(chan struct{}, 1),
		stopTidy: make(chan struct{}),
	}
	l.gathering, l.spare = newBatch(len(l.lanes)), newBatch(len(l.lanes))
	defer func() {
		if err != nil {
			_ = root.Close()
		}
	}()
	now := time.Now()
	if err := l.load(now); err != nil {
		return nil, err
	}
	if l.active, err = l.begin(now); err != nil { // better now than at the first claim
		return nil, fmt.Errorf("claimlog: make a segment: %w", err)
	}
	l.metrics = newMetrics(l)
	if err := l.metrics.register(options.Registerer); err != nil {
		_ = l.active.file.Close()
		return nil, fmt.Errorf("claimlog: register metrics: %w", err)
	}
	l.tidying.Go(l.keepTidy)
	return l, nil
}

func openFolder(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil { //nolint:gosec // where the data is, is for the operator to say
		return nil, err
	}
	return os.OpenRoot(dir)
}

// Close waits for the claims under way, refuses others with 5002, and closes
// the files.
func (l *Log) Close() error {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.mu.Unlock()
	if again {
		return nil
	}
	l.Flush()
	l.calls.Wait()
	close(l.stopTidy)
	l.tidying.Wait()
	l.finishActive()
	l.tidy(time.Now())
	l.metrics.unregister(l.options.Registerer)
	return l.root.Close()
}

// Pending yields the claims that earlier processes left behind and that have
// not expired.
func (l *Log) Pending(yield func(commands.Claim) bool) {
	now := time.Now()
	for _, s := range l.finishedSegments() {
		for _, c := range s.left {
			if c.Expires.After(now) && !yield(c) {
				return
			}
		}
	}
}

// write writes a batch to the active segment. Only one goroutine at a time
// may.
func (l *Log) write(b *batch) error {
	began := time.Now()
	err := l.append(b, began)
	l.metrics.wrote(b.claims, began, err)
	l.report(err)
	if err == nil {
		return nil
	}
	var told *protocol.Error
	if errors.As(err, &told) {
		return told
	}
	return protocol.Wrap(protocol.StoreUnavailable, err, "the claim could not be written to disk")
}

// report logs when writing begins to fail and when it succeeds again. Every
// command that fails for it is logged by the router.
func (l *Log) report(err error) {
	failed := l.failing.Swap(err != nil)
	switch {
	case err == nil && failed:
		l.log.Info("claims are written again")
	case err != nil && !failed:
		l.log.Error("claims cannot be written", "error", err)
	}
}

// probeEvery is how often [Log.Check] writes at most.
const probeEvery = time.Second

// Check says why claims cannot be written, nil if they can as far as is known.
// After a failure it writes one that has expired, to find out.
func (l *Log) Check() error {
	if !l.failing.Load() {
		return nil
	}
	now := time.Now()
	if last := l.probed.Load(); now.UnixNano()-last > int64(probeEvery) && l.probed.CompareAndSwap(last, now.UnixNano()) {
		_ = l.Claim(context.Background(), commands.Claim{Principal: "bridge", RequestID: "probe", Expires: now})
	}
	if l.failing.Load() {
		return protocol.Errorf(protocol.StoreUnavailable, "claims cannot be written to disk: what acts on the world is refused")
	}
	return nil
}

func (l *Log) append(b *batch, now time.Time) error {
	if err := l.makeRoom(int64(len(b.records)), now); err != nil {
		return err
	}
	s := l.active
	if err := s.append(b.records, l.options.SyncAlways); err != nil {
		return err
	}
	l.used.Add(int64(len(b.records)))
	if until := l.until(b.expires, now); until.After(s.until) {
		s.until = until
	}
	return nil
}

// makeRoom sees to it that the active segment can take size bytes.
func (l *Log) makeRoom(size int64, now time.Time) error {
	if s := l.active; s != nil {
		if err := s.repair(); err != nil {
			return err
		}
		full := s.size+size > min(maxSegment, l.options.MaxBytes/8)
		if s.size > 0 && (full || now.Sub(s.begun) >= l.options.Life) {
			l.finishActive()
		}
	}
	if l.used.Load()+size > l.options.MaxBytes {
		return protocol.Errorf(protocol.StoreUnavailable,
			"claims of the last minutes take all of the %d bytes they may; there is room again as they expire", l.options.MaxBytes)
	}
	if l.active != nil {
		return nil
	}
	s, err := l.begin(now)
	if err != nil {
		return err
	}
	l.active = s
	return nil
}

// begin makes a new segment.
func (l *Log) begin(now time.Time) (*segment, error) {
	s := &segment{name: segmentName(l.next), begun: now, until: now}
	l.next++
	var err error
	if s.file, err = l.options.create(l.root, s.name); err != nil {
		return nil, err
	}
	if l.options.SyncAlways {
		err = l.syncFolder()
	}
	if err != nil {
		_ = s.file.Close()
		_ = l.root.Remove(s.name)
		return nil, err
	}
	return s, nil
}

// syncFolder makes the names of new segments last.
func (l *Log) syncFolder() error {
	if runtime.GOOS == "windows" { // keeps names by itself, and cannot be asked to
		return nil
	}
	folder, err := l.root.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	return folder.Sync()
}
