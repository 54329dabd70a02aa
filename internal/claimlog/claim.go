package claimlog

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// maxBatch bounds what is written at once, in bytes.
const maxBatch = 1 << 20

// A batch is the claims of one write.
type batch struct {
	records []byte
	claims  int
	expires time.Time       // the last of them
	waiting *followers      // nil if nobody does
	told    [][]func(error) // by lane
	tells   int             // of all lanes
	flushed bool            // those who are told wait for it to be written
}

func newBatch(lanes int) *batch { return &batch{told: make([][]func(error), lanes)} }

// Followers wait until the batch their claims are in is written.
type followers struct {
	turn  chan struct{} // who receives a value writes the batch; it is closed when that is done
	err   error         // of writing it, final when turn is closed
	count int           // guarded by Log.mu
}

// Claim returns when the claim is durable: it will be among the pending ones
// of the next process that opens the log, until it expires. On an error it
// may or may not be.
func (l *Log) Claim(ctx context.Context, c commands.Claim) error {
	if len(c.Principal) > maxText || len(c.RequestID) > maxText {
		return protocol.Errorf(protocol.PayloadTooLarge, "the claim of request %.64q is too large", c.RequestID)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		written, err := l.join(ctx, c)
		if written || err != nil {
			return err
		}
	}
}

// until is when a claim that expires has done so by the monotonic clock, which
// now is of.
func (l *Log) until(expires, now time.Time) time.Time {
	return now.Add(min(max(expires.Sub(now), 0), l.options.Life))
}

// join adds a claim to the batch that gathers and returns when that is
// written. If the batch is full, it reports false, and the next may have room.
func (l *Log) join(ctx context.Context, c commands.Claim) (in bool, err error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false, protocol.Errorf(protocol.ShuttingDown, "the claims are closed")
	}
	l.calls.Add(1)
	defer l.calls.Done()
	b := l.gathering
	if in = len(b.records)+recordSize(c) <= maxBatch; in {
		b.add(c)
	}
	if !l.writing {
		l.writing = true
		return in, l.lead()
	}
	f := b.follow()
	l.mu.Unlock()
	return in, l.follow(ctx, f)
}

func (b *batch) add(c commands.Claim) {
	b.records = appendRecord(b.records, c)
	b.claims++
	if c.Expires.After(b.expires) {
		b.expires = c.Expires
	}
}

func (b *batch) follow() *followers {
	if b.waiting == nil {
		b.waiting = &followers{turn: make(chan struct{}, 1)}
	}
	b.waiting.count++
	return b.waiting
}

func (b *batch) reset() {
	for i, told := range b.told {
		clear(told)
		b.told[i] = told[:0]
	}
	*b = batch{records: b.records[:0], told: b.told}
}

// lead writes the batch that has gathered. It is called with l.mu locked, by
// who has set l.writing or was given the turn, and unlocks it.
func (l *Log) lead() error {
	b, f := l.gathering, l.gathering.waiting
	if l.gathering, l.spare = l.spare, nil; l.gathering == nil {
		l.gathering = newBatch(len(l.lanes))
	}
	l.mu.Unlock()

	err := l.write(b)

	l.mu.Lock()
	l.queueTold(b, err)
	l.passOn()
	l.mu.Unlock()
	if f != nil {
		f.err = err
		close(f.turn)
	}
	l.tell(b)
	b.reset()
	l.mu.Lock()
	l.spare = b
	l.mu.Unlock()
	return err
}

// passOn lets one of those who gathered meanwhile write for them.
func (l *Log) passOn() {
	b := l.gathering
	switch f := b.waiting; {
	case f != nil && f.count > 0:
		f.turn <- struct{}{} // has room for the one value it ever gets
	case b.flushed:
		go l.leadAlone()
	case b.tells > 0:
		l.writing = false
	default:
		b.reset() // who gave up waiting gave up the claim
		l.writing = false
	}
}

// leadAlone writes for those who do not wait.
func (l *Log) leadAlone() {
	l.mu.Lock()
	_ = l.lead() // they are told
}

// follow waits until the batch of the followers is written, or writes it if it
// is the caller's turn.
func (l *Log) follow(ctx context.Context, f *followers) error {
	select {
	case _, mine := <-f.turn:
		if !mine {
			return f.err
		}
		l.mu.Lock()
		return l.lead()
	case <-ctx.Done():
	}
	l.mu.Lock()
	f.count--
	select {
	case _, mine := <-f.turn: // came meanwhile, and is not to be left lying
		if mine {
			return l.lead()
		}
		l.mu.Unlock()
		return f.err
	default:
		l.mu.Unlock()
		return ctx.Err()
	}
}
