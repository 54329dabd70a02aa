package evidence

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// maxPiece is the size at which the gathering batch begins another group.
const maxPiece = 128 << 10

// keepPiece is the largest buffer that is kept for reuse, in bytes.
const keepPiece = 512 << 10

// A batch is the content of one write: one group, or several if it is much.
type batch struct {
	pieces  []*piece
	room    []*piece        // emptied, for reuse
	claims  int             // of all pieces
	waiting *followers      // nil without waiting callers
	told    [][]func(error) // by lane
	tells   int             // of all lanes
	flushed bool            // its callbacks wait for it to be written
}

// A piece is a group that gathers.
type piece struct {
	data    []byte // space for the header, and the records
	block   uint32
	begins  bool // the block
	claims  int
	entries int
	bytes   int64     // of the entries
	expires time.Time // the last of the claims
	marks   []uint64  // of the filter
}

// Followers wait until the batch their claims are in is written.
type followers struct {
	turn  chan struct{} // the receiver of a value writes the batch; closed after the write
	err   error         // of writing it, final when turn is closed
	count int           // guarded by Log.mu
}

func newBatch(lanes int) *batch { return &batch{told: make([][]func(error), lanes)} }

func (b *batch) reset() {
	for i, told := range b.told {
		clear(told)
		b.told[i] = told[:0]
	}
	for _, p := range b.pieces {
		if cap(p.data) <= keepPiece && len(b.room) == 0 {
			b.room = append(b.room, p)
		}
	}
	clear(b.pieces)
	*b = batch{pieces: b.pieces[:0], room: b.room, told: b.told}
}

// entries is the number of entries in a batch.
func (b *batch) entries() (n int) {
	for _, p := range b.pieces {
		n += p.entries
	}
	return n
}

func (b *batch) follow() *followers {
	if b.waiting == nil {
		b.waiting = &followers{turn: make(chan struct{}, 1)}
	}
	b.waiting.count++
	return b.waiting
}

// piece is the place of the next record. It is called with l.mu locked.
func (l *Log) piece() *piece {
	b := l.gathering
	if n := len(b.pieces); n > 0 && len(b.pieces[n-1].data) < maxPiece {
		return b.pieces[n-1]
	}
	p := new(piece)
	if n := len(b.room); n > 0 {
		p, b.room = b.room[n-1], b.room[:n-1]
	}
	if p.data == nil {
		p.data = make([]byte, chainedHead, 4<<10)
	}
	*p = piece{data: p.data[:chainedHead], marks: p.marks[:0]}
	if l.roll || l.entryNames.numbers == nil || l.blockBytes >= l.options.blockBytes() {
		l.beginBlock()
		p.begins = true
	}
	p.block = l.block
	l.blockBytes += chainedHead + SealSize
	b.pieces = append(b.pieces, p)
	return p
}

// beginBlock begins a new block for the records from now on.
func (l *Log) beginBlock() {
	l.block++
	l.blockBytes, l.roll = 0, false
	for _, d := range []*dictionary{&l.claimNames, &l.entryNames} {
		if d.numbers == nil || len(d.numbers) > 1<<12 {
			d.numbers = make(map[string]uint64)
		}
		clear(d.numbers)
	}
	l.claimNames.kind, l.entryNames.kind = claimDefinition, entryDefinition
}

func (l *Log) addClaim(c *commands.Claim) {
	p := l.piece()
	before := len(p.data)
	p.data, l.scratch = l.claimNames.appendClaim(p.data, l.scratch, c)
	l.blockBytes += len(p.data) - before
	p.claims++
	l.gathering.claims++
	if c.Expires.After(p.expires) {
		p.expires = c.Expires
	}
}

// A Place is the destination of an entry: it numbers the texts that the block repeats.
type Place struct {
	log   *Log
	piece *piece
}

// Number is the number of a text in the block.
func (p Place) Number(text []byte) (n uint64) {
	n, p.piece.data = p.log.entryNames.number(p.piece.data, text)
	return n
}

// Block is the number of the block.
func (p Place) Block() uint32 { return p.piece.block }

// Mark has the block be found by a text.
func (p Place) Mark(text string) { p.piece.marks = append(p.piece.marks, markOf(text)) }

// An Entry writes itself. It is called with the log's lock held.
type Entry interface {
	AppendTo(dst []byte, to Place) []byte
}

// Add adds an entry. It is written by a call of [Log.Keep], or soon. Add reports false
// if the log is closed.
func (l *Log) Add(e Entry) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	p := l.piece()
	before := len(p.data)
	l.scratch = e.AppendTo(l.scratch[:0], Place{l, p})
	p.data = appendRecord(p.data, entryRecord, l.scratch)
	added := len(p.data) - before
	l.blockBytes += added
	p.bytes += int64(added)
	p.entries++
	first := l.waiting.Add(int64(added)) == int64(added)
	l.taken.Add(1)
	l.mu.Unlock()
	if first {
		signal(l.stir)
	}
	return true
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Enqueue adds a claim to the batch that gathers. It is written by a call of Flush,
// Keep or [Log.Claim].
func (l *Log) Enqueue(c commands.Claim, done func(error)) {
	if err := l.enqueue(&c, done); err != nil {
		done(err)
	}
}

func (l *Log) enqueue(c *commands.Claim, done func(error)) error {
	if err := l.takes(c); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return protocol.Errorf(protocol.ShuttingDown, "the claims are closed")
	}
	// The queue is bounded by the calls that may be in flight: the
	// batch may well become larger than those of callers that wait.
	l.calls.Add(1)
	l.addClaim(c)
	l.gathering.tell(l.laneOf(c.Principal), done)
	return nil
}

// takes returns the error of a claim that cannot be accepted.
func (l *Log) takes(c *commands.Claim) error {
	if len(c.Principal) > maxText || len(c.RequestID) > maxText {
		return protocol.Errorf(protocol.PayloadTooLarge, "the claim of request %.64q is too large", c.RequestID)
	}
	if l.claimed.Load() > l.options.MaxClaims {
		return protocol.Errorf(protocol.StoreUnavailable,
			"claims of the last minutes take all of the %d bytes they may; there is room again as they expire", l.options.MaxClaims)
	}
	return nil
}

// Flush writes enqueued claims and entries and runs their callbacks, on this goroutine if
// no other is writing. Where writing takes long, because it has to reach a disk, it is
// left to another goroutine.
func (l *Log) Flush() {
	l.mu.Lock()
	b := l.gathering
	switch {
	case b.tells == 0:
	case l.writing:
		b.flushed = true // the writer will see to it
	case l.options.SyncAlways:
		l.writing = true
		go l.leadAlone()
	default:
		l.writing = true
		_ = l.lead() // unlocks; the callbacks get the error
		return
	}
	l.mu.Unlock()
}

// Keep returns when the entries added before are written. If that fails they wait for
// the next write, and an error is logged. It may be called with locks held that the
// callbacks of claims need: these run on another goroutine.
func (l *Log) Keep() {
	if want := l.taken.Load(); l.kept.Load() >= want || l.failing.Load() {
		return // the usual case, since Keep is called for every outgoing message
	}
	l.mu.Lock()
	l.keep()
	l.mu.Unlock()
}

// keep is Keep with l.mu locked before and after, also after earlier failures.
func (l *Log) keep() {
	want, failures := l.taken.Load(), l.failures
	for l.kept.Load() < want && l.failures == failures {
		if l.writing {
			l.wake.Wait()
			continue
		}
		l.writing = true
		_ = l.leadAnd(l.tellElsewhere) // unlocks
		l.mu.Lock()
	}
}

// Settle returns when the entries added before are written. It repeats failed writes
// until ctx ends.
func (l *Log) Settle(ctx context.Context) error {
	want := l.taken.Load()
	for {
		l.mu.Lock()
		l.keep()
		l.mu.Unlock()
		if l.kept.Load() >= want {
			return nil
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
