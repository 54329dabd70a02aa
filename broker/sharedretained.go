package broker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A RetainedLog has the retained messages of the clients of all bridges of a
// cluster. The last value of a key counts.
type RetainedLog interface {
	// Put stores values and returns the position of each, 0 for one that the log does not
	// take. After an error all may be put again.
	Put(ctx context.Context, values []RetainedValue) (positions []uint64, err error)
	// Largest is the number of bytes that a key and its value have together at most.
	Largest() int
	// Follow calls take with every value there is and every one that comes, in the
	// order of their positions, until ctx ends; and current once all have come
	// that there were. Life and Earlier are not told.
	Follow(ctx context.Context, current func(), take func(position uint64, v RetainedValue))
}

// A RetainedValue is a change of a [RetainedLog]; without a value the key is gone.
type RetainedValue struct {
	Key   string
	Value []byte
	Life  time.Duration // after which it may be forgotten; 0 never
	// Earlier says that whatever the log has of the key is newer; the position is 0
	// then.
	Earlier bool
	// By is the process whose client published it, and Given are those of other
	// bridges that it was given to for their subscribers, under a number. Without By
	// nobody knows.
	By     Process
	Given  []Process
	Number uint64
}

// A sharedRetained keeps the retained messages here equal to those of the
// cluster. What a client here retains counts here at once, and is put into the
// log; what the log has behind that replaces it.
type sharedRetained struct {
	b   *Broker
	log RetainedLog

	applying sync.Mutex // held while something of the log is made to count here

	// Of subscribers that are answered before a value comes, see belated.go.
	counting sync.RWMutex // held for reading while a subscription is answered
	counted  uint64       // values of the log that count here

	mu       sync.Mutex
	values   map[string]RetainedValue // to be put
	receipts []*Receipt               // of their publishers
	pending  map[string]*pendingRetained
	ahead    map[string][]flight // of values that the log and their bridges bring, by key
	wake     chan struct{}
	current  chan struct{}
}

// A pendingRetained is a key of which a value from here is on its way into the
// log, or has not come back yet.
type pendingRetained struct {
	values   int    // on their way
	stored   uint64 // position of the last one that is there
	position uint64 // of what came from the log meanwhile, 0 nothing
	came     loggedRetained
}

// A loggedRetained is a value of the log.
type loggedRetained struct {
	RetainedValue
	message *message
}

func newSharedRetained(b *Broker, log RetainedLog) *sharedRetained {
	return &sharedRetained{
		b: b, log: log, values: make(map[string]RetainedValue), pending: make(map[string]*pendingRetained),
		ahead: make(map[string][]flight),
		wake:  make(chan struct{}, 1), current: make(chan struct{}),
	}
}

// fits reports whether the log takes a message. One that it does not take must not be
// expected: values of the same batch would wait for ever.
func (h *sharedRetained) fits(m *message) bool {
	const numbers = 64 // the lengths of the parts, and when it expires
	space := len(m.to.space)
	key := len(keyRetained) + space + 1 + len(m.topic)
	return key+m.size()+len(m.from)+space+len(m.owner)+numbers <= h.log.Largest()
}

// expect has what the log brings of a key wait for a value from here, which is put
// next.
func (h *sharedRetained) expect(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pending[key]
	if p == nil {
		p = new(pendingRetained)
		h.pending[key] = p
	}
	p.values++
}

// put has a message put into the log that was expected, and was given to peers; the
// receipt is answered when it is there.
func (h *sharedRetained) put(m *message, given []Process, now int64, receipt *Receipt) {
	v := RetainedValue{Key: keyOfRetained(m), By: h.b.index.self(), Given: given, Number: m.number}
	if len(m.payload) > 0 {
		v.Value = appendMessage(nil, m, h.b.toStore(m.expires))
		if m.expires != 0 {
			v.Life = time.Duration(max(m.expires-now, 1))
		}
	}
	h.mu.Lock()
	if _, gathers := h.values[v.Key]; gathers {
		h.pending[v.Key].values-- // one is put for both
	}
	h.values[v.Key] = v
	if receipt != nil {
		h.receipts = append(h.receipts, receipt)
	}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// run puts what gathers into the log, until the broker closes.
func (h *sharedRetained) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			h.flush(stop)
			return
		case <-h.wake:
			h.flush(stop)
		}
	}
}

func (h *sharedRetained) flush(stop <-chan struct{}) {
	h.mu.Lock()
	values, receipts := h.values, h.receipts
	h.values, h.receipts = make(map[string]RetainedValue), nil
	h.mu.Unlock()
	if len(values) == 0 {
		return
	}
	all := slices.Collect(maps.Values(values))
	positions := h.persist(all, stop)
	if positions == nil {
		return
	}
	h.stored(all, positions)
	outcome := Missed // whether anybody has heard it, others say
	if slices.Contains(positions, 0) {
		outcome = Full // of at least one, and it is not known of which
	}
	for _, r := range receipts {
		r.Answer(outcome)
	}
	h.b.AnswerReceipts()
}

// takeIn puts what clients retained before there was a log into it, and takes it
// out of the journal that had it.
func (h *sharedRetained) takeIn(from *Broker, all []earlierRetained) {
	if len(all) == 0 {
		return
	}
	t := from.getTurn().begin()
	defer from.putTurn(t)
	values := make([]RetainedValue, 0, len(all))
	for _, e := range all {
		if !h.fits(e.m) {
			h.b.log.Error("a retained message is larger than other bridges can have it", "topic", e.m.topic, "bytes", e.m.size(), "largest", h.log.Largest())
			continue
		}
		v := RetainedValue{Key: keyOfRetained(e.m), Value: appendMessage(nil, e.m, h.b.toStore(e.m.expires)), Earlier: true}
		if e.m.expires != 0 {
			v.Life = time.Duration(e.m.expires - t.now)
		}
		if e.m.expires == 0 || v.Life > 0 {
			values = append(values, v)
		}
	}
	if h.persist(values, from.closing) == nil {
		return // the next start tries again
	}
	for _, e := range all {
		from.journal.put(t, e.key, nil)
	}
	h.b.log.Info("what clients had retained here is shared with the other bridges", "messages", len(values))
}

// An earlierRetained is a message that a client retained while its bridge worked
// alone, and its key in the journal.
type earlierRetained struct {
	key string
	m   *message
}

// retainedByAll has the retained messages of all bridges, nil for a broker that is
// alone.
func (b *Broker) retainedByAll() *sharedRetained {
	if b.options.adopter != nil {
		return b.options.adopter.shared
	}
	return b.shared
}

// persist puts values again and again while the log fails. It gives up, and
// returns nil, when the broker closes.
func (h *sharedRetained) persist(values []RetainedValue, stop <-chan struct{}) []uint64 {
	for wait := retryWrite; ; wait = min(2*wait, mostRetryWait) {
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		positions, err := h.log.Put(ctx, values)
		cancel()
		if err == nil {
			return positions
		}
		h.b.log.Warn("retained messages can't be stored; it is tried again and again", "error", err)
		select {
		case <-stop:
			return nil
		case <-time.After(wait):
		}
	}
}

// stored notes where values stand in the log by now.
func (h *sharedRetained) stored(values []RetainedValue, positions []uint64) {
	h.applying.Lock()
	defer h.applying.Unlock()
	for i := range values {
		h.mu.Lock()
		p := h.pending[values[i].Key]
		p.values--
		p.stored = max(p.stored, positions[i])
		var came loggedRetained
		position := p.position
		if p.values == 0 {
			came, p.came = p.came, came
		}
		h.mu.Unlock()
		if came.message != nil {
			h.takeValue(position, came)
		}
	}
}

// follow takes what comes from the log, until the broker closes.
func (h *sharedRetained) follow() {
	h.log.Follow(h.b.ctx, func() { close(h.current) }, func(position uint64, v RetainedValue) {
		m, err := h.parse(v.Key, v.Value)
		if err != nil {
			h.b.log.Error("a retained message of the cluster cannot be read", "error", err)
			return
		}
		m.number, v.Value = v.Number, nil
		came := loggedRetained{v, m}
		h.applying.Lock()
		defer h.applying.Unlock()
		h.takeValue(position, came)
	})
}

// takeValue has a value of the log count here, unless one from here is later; of one
// that is on its way, its position will tell. applying is held.
func (h *sharedRetained) takeValue(position uint64, came loggedRetained) {
	h.mu.Lock()
	p := h.pending[came.Key]
	old := came // that does not count any more
	switch {
	case p == nil:
		old = loggedRetained{}
	case p.values > 0:
		old, p.position, p.came = p.came, position, came
		came = loggedRetained{}
	case position >= p.stored:
		delete(h.pending, came.Key)
		old = loggedRetained{}
	default:
		came = loggedRetained{}
	}
	h.mu.Unlock()
	if old.message != nil {
		h.landed(&old.RetainedValue)
	}
	if came.message != nil && !h.apply(came) {
		h.takeValue(position, came)
	}
}

func (h *sharedRetained) parse(key string, value []byte) (*message, error) {
	space, topic, ok := strings.Cut(strings.TrimPrefix(key, keyRetained), "\x00")
	if !ok {
		return nil, errRecord
	}
	if len(value) == 0 {
		return &message{topic: topic, to: everybody(protocol.SpaceID(space))}, nil
	}
	m, err := parseMessage(value)
	if err == nil {
		m.expires = h.b.fromStore(m.expires, forever)
	}
	return m, err
}

// apply makes a value of the log count here, and gives it to the subscribers that
// were answered without it. It does not if a client here has retained another one just
// now.
func (h *sharedRetained) apply(v loggedRetained) bool {
	m := v.message
	h.counting.Lock()
	whose, done := h.b.retained.setUnless(func() bool { return h.isPending(v.Key) }, m, retainLimits{bytes: h.b.options.Limits.RetainedBytes})
	if !done {
		h.counting.Unlock()
		return false
	}
	after, missed := h.landed(&v.RetainedValue)
	h.counted++
	counted := h.counted
	h.counting.Unlock()
	switch {
	case whose != hasRoom:
		h.b.log.Warn("a retained message of another bridge is not kept: too much is retained", "topic", m.topic)
	case missed && len(m.payload) > 0:
		h.b.deliverBelated(belated{message: m, key: v.Key, counted: counted, after: after})
	}
	return true
}

func (h *sharedRetained) isPending(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pending[key] != nil
}

// RetainedCurrent is closed once this bridge has the retained messages of the
// cluster; it is nil for a bridge that is alone.
func (b *Broker) RetainedCurrent() <-chan struct{} {
	if b.shared == nil {
		return nil
	}
	return b.shared.current
}
