package broker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Journal keeps what must outlive the process. It has two parts: keyed
// values, of which the last counts, and a log of entries in order. Calls come
// one at a time.
type Journal interface {
	// Load yields every keyed value, in any order, then every log entry,
	// oldest first. Slices are valid until the function returns.
	Load(ctx context.Context, keyed func(key string, value []byte) error, entry func(seq uint64, entry []byte) error) error
	// Write makes changes durable: the keyed values, then the log entry, if
	// it is not empty, of which it returns the sequence.
	Write(ctx context.Context, keyed []KeyedValue, entry []byte) (seq uint64, err error)
	// Trim forgets the log entries before seq.
	Trim(ctx context.Context, seq uint64) error
}

// A KeyedValue is one change of a Journal; a nil Value removes the key.
type KeyedValue struct {
	Key   string
	Value []byte
}

// A scribe collects records of all turns and writes them in groups: while one
// group is being stored the next one gathers. What waits for its records to
// be stored names their position, the number of their group.
type scribe struct {
	b      *Broker
	out    Journal
	stored atomic.Uint64 // every group up to this one is stored

	failing atomic.Bool // the last attempt to write a group did

	mu       sync.Mutex
	entry    []byte
	keyed    map[string][]byte
	group    uint64 // number of the group that gathers
	conns    []*conn
	sessions []*session
	serial   uint64 // last number given to a session
	message  uint64 // last number given to a message
	checked  uint64 // generation of the log, 1 at first, see checkpoint.go

	// hold is locked for reading while what came from a peer is recorded, so that
	// it gets into one group.
	hold     sync.RWMutex
	marks    map[string]Mark // of peers, by node
	arrivals []func()        // to be called when the group is stored
	waiters  []storedWaiter

	wake chan struct{}
	done chan struct{}
	quit chan struct{}
	stop context.Context // of closing; set when quit is closed

	// Of the writing goroutine.
	logged int // bytes in the log
	kept   int // of which the last checkpoint wrote
}

const (
	retryWrite    = 100 * time.Millisecond
	mostRetryWait = 5 * time.Second
	writeTimeout  = 10 * time.Second

	// entryCost is the overhead of an entry, in bytes. It keeps
	// a log of many small ones, which load slowly, from growing long.
	entryCost = 256
)

func newScribe(b *Broker, out Journal) *scribe {
	return &scribe{
		b: b, out: out, group: 1, checked: 1, keyed: make(map[string][]byte), marks: make(map[string]Mark),
		wake: make(chan struct{}, 1), done: make(chan struct{}), quit: make(chan struct{}),
	}
}

// stored reports whether what was recorded at a position is durable.
func (b *Broker) stored(at uint64) bool { return at == 0 || b.journal.stored.Load() >= at }

// full reports whether nothing new may be stored.
func (b *Broker) full() bool {
	full := b.options.Full
	return full != nil && full()
}

// Check says why what must outlive the process is not stored at the moment,
// nil if it is.
func (b *Broker) Check() error {
	if b.journal != nil && b.journal.failing.Load() {
		return protocol.Errorf(protocol.StoreUnavailable, "MQTT sessions and retained messages cannot be stored: acknowledgements wait")
	}
	return nil
}

// commit has the records of a turn written.
func (b *Broker) commit(t *turn) {
	if t.recorded == 0 {
		return
	}
	t.recorded = 0
	select {
	case b.journal.wake <- struct{}{}:
	default:
	}
}

// log appends to the log with fn and returns the position.
func (j *scribe) log(t *turn, fn func(dst []byte) []byte) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entry = fn(j.entry)
	t.recorded, t.packetAt = j.group, j.group
	return j.group
}

// put replaces a keyed value and returns the position.
func (j *scribe) put(t *turn, key string, value []byte) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keyed[key] = value
	t.recorded, t.packetAt = j.group, j.group
	return j.group
}

// await has c looked at when more is stored.
func (j *scribe) await(c *conn) {
	j.mu.Lock()
	j.conns = append(j.conns, c)
	j.mu.Unlock()
}

func (j *scribe) awaitSession(s *session) {
	j.mu.Lock()
	if n := len(j.sessions); n == 0 || j.sessions[n-1] != s {
		j.sessions = append(j.sessions, s)
	}
	j.mu.Unlock()
}

// A storedWaiter waits until a group is stored.
type storedWaiter struct {
	group uint64
	done  chan struct{}
}

// wait waits until the record at a position is stored, ctx ends, or the journal is
// closed.
func (j *scribe) wait(ctx context.Context, at uint64) {
	j.mu.Lock()
	if j.b.stored(at) {
		j.mu.Unlock()
		return
	}
	w := storedWaiter{at, make(chan struct{})}
	j.waiters = append(j.waiters, w)
	j.mu.Unlock()
	select {
	case <-w.done:
	case <-j.done:
	case <-ctx.Done():
	}
}

// release wakes the waiters whose records are stored.
func (j *scribe) release() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiters = slices.DeleteFunc(j.waiters, func(w storedWaiter) bool {
		stored := j.b.stored(w.group)
		if stored {
			close(w.done)
		}
		return stored
	})
}

// run writes groups until the broker closes; what is recorded by then is
// still written.
func (j *scribe) run() {
	defer close(j.done)
	t := newTurn(j.b)
	for {
		select {
		case <-j.wake:
			j.write(t)
		case <-j.quit:
			if _, _, err := j.flush(t); err == nil {
				j.lastCheckpoint(j.stop, t)
			}
			return
		}
	}
}

func (j *scribe) write(t *turn) {
	if _, _, err := j.flush(t); err == nil {
		j.maybeCheckpoint(t)
	}
}

// flush writes one group and tells who waits for it.
func (j *scribe) flush(t *turn) (seq uint64, size int, err error) {
	j.hold.Lock()
	j.mu.Lock()
	j.hold.Unlock()
	entry, keyed, group := j.entry, j.keyed, j.group
	conns, sessions, arrivals := j.conns, j.sessions, j.arrivals
	if len(entry) == 0 && len(keyed) == 0 && len(conns) == 0 && len(sessions) == 0 && len(arrivals) == 0 {
		j.mu.Unlock()
		return 0, 0, nil
	}
	j.entry, j.keyed = nil, make(map[string][]byte)
	j.conns, j.sessions, j.arrivals = nil, nil, nil
	j.group++
	j.mu.Unlock()

	values := make([]KeyedValue, 0, len(keyed))
	for k, v := range keyed {
		values = append(values, KeyedValue{k, v})
	}
	if len(entry) > 0 || len(values) > 0 {
		(*j.b.beforeWrite.Load())()
		if seq, err = j.persist(values, entry); err != nil {
			return 0, 0, err
		}
	}
	j.stored.Store(group)
	j.release()
	if len(entry) > 0 {
		size = len(entry) + entryCost
	}
	j.logged += size
	for _, then := range arrivals {
		then()
	}
	t.begin()
	for _, c := range conns {
		t.settleOwed(c)
	}
	for _, s := range sessions {
		t.pump(s)
	}
	t.end()
	return seq, size, nil
}

func (j *scribe) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), writeTimeout)
}

// persist writes one group, again and again while the journal fails: nothing
// is acknowledged meanwhile. It gives up when the broker closes.
func (j *scribe) persist(values []KeyedValue, entry []byte) (seq uint64, err error) {
	for wait := retryWrite; ; wait = min(2*wait, mostRetryWait) {
		ctx, cancel := j.context()
		seq, err = j.out.Write(ctx, values, entry)
		cancel()
		if err == nil {
			if j.failing.Swap(false) {
				j.b.log.Info("journal is written again")
			}
			return seq, nil
		}
		if !j.failing.Swap(true) {
			j.b.log.Error("journal can't be written; it is tried again and again", "error", err)
		}
		select {
		case <-j.quit:
			return 0, err
		case <-time.After(wait):
		}
	}
}

// close writes what is left, and a checkpoint if ctx leaves time for it.
func (j *scribe) close(ctx context.Context) {
	j.stop = ctx
	close(j.quit)
	<-j.done
}
