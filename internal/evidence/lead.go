package evidence

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// maxPieces is the greatest number of groups of a batch with waiting callers.
const maxPieces = 8

// Claim returns when the claim is durable: it will be among the pending ones
// of the next process that opens the log, until it expires. On an error it
// may or may not be.
func (l *Log) Claim(ctx context.Context, c commands.Claim) error {
	if err := l.takes(&c); err != nil {
		return err
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
	if in = len(l.gathering.pieces) < maxPieces; in {
		l.addClaim(&c)
	}
	if !l.writing {
		l.writing = true
		return in, l.lead()
	}
	f := l.gathering.follow()
	l.mu.Unlock()
	return in, l.follow(ctx, f)
}

// lead writes the batch that has gathered. It is called with l.mu locked, by the
// goroutine that has set l.writing or was given the turn, and unlocks it. The callbacks
// of the batch run on this goroutine.
func (l *Log) lead() error { return l.leadAnd(l.tell) }

func (l *Log) leadAnd(tell func(*batch)) error {
	b, f := l.gathering, l.gathering.waiting
	if l.gathering, l.spare = l.spare, nil; l.gathering == nil {
		l.gathering = newBatch(len(l.lanes))
	}
	retained := l.retained
	l.retained = nil
	l.mu.Unlock()

	err := l.write(retained, b)

	l.mu.Lock()
	if err != nil {
		l.failures++
	}
	l.queueTold(b, err)
	l.passOn()
	l.wake.Broadcast()
	l.mu.Unlock()
	if f != nil {
		f.err = err
		close(f.turn)
	}
	tell(b)
	b.reset()
	l.mu.Lock()
	l.spare = b
	l.mu.Unlock()
	return err
}

// passOn lets one of the callers that gathered meanwhile write their batch.
func (l *Log) passOn() {
	b := l.gathering
	switch f := b.waiting; {
	case f != nil && f.count > 0:
		f.turn <- struct{}{} // has room for the one value it ever gets
	case b.flushed:
		go l.leadAlone()
	default:
		// The claims of callers that gave up waiting are written with the next batch.
		b.waiting = nil
		l.writing = false
	}
}

// leadAlone writes a batch without waiting callers.
func (l *Log) leadAlone() {
	l.mu.Lock()
	_ = l.lead() // the callbacks get the error
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

// write writes the retained pieces of failed writes, and a batch. Only one goroutine at
// a time may call it. After a failure the pieces are retained without their claims.
func (l *Log) write(retained []*piece, b *batch) (err error) {
	began := time.Now()
	pieces := b.pieces
	if len(retained) > 0 {
		pieces = slices.Concat(retained, b.pieces)
	}
	for i, p := range pieces {
		if err = l.append(p, began); err != nil {
			l.retain(pieces[i:])
			break
		}
	}
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
		l.log.Info("claims and entries of the audit trail are written again")
	case err != nil && !failed:
		l.log.Error("claims and entries of the audit trail cannot be written", "error", err)
		signal(l.stir) // tries again
	}
}

// retain keeps the entries and the definitions of pieces that were not written. Later
// pieces depend on the definitions.
func (l *Log) retain(pieces []*piece) {
	kept := make([]*piece, 0, len(pieces))
	for _, p := range pieces {
		k := &piece{data: make([]byte, chainedHead, len(p.data)), block: p.block, begins: p.begins, entries: p.entries, bytes: p.bytes, marks: slices.Clone(p.marks)}
		for rest := p.data[chainedHead:]; len(rest) > 0; {
			kind, body, left, err := cutRecord(rest)
			if err != nil {
				break // never: the records were written here
			}
			if kind != claimRecord {
				k.data = appendRecord(k.data, kind, body)
			}
			rest = left
		}
		kept = append(kept, k)
	}
	l.mu.Lock()
	l.retained = kept
	l.mu.Unlock()
}

// append writes one piece to the active segment.
func (l *Log) append(p *piece, now time.Time) error {
	if len(p.data) == chainedHead && !p.begins {
		return nil // nothing was left of it
	}
	frame := l.frame(p, now)
	if err := l.makeRoom(p, int64(len(frame)), now); err != nil {
		return err
	}
	s := l.active
	if err := s.append(frame, l.options.SyncAlways); err != nil {
		return err
	}
	l.used.Add(int64(len(frame)))
	l.mu.Lock()
	if p.claims > 0 {
		if s.until == 0 {
			l.claimed.Add(s.length())
		}
		s.until = max(s.until, l.until(p.expires, now, l.older(now)), 1)
	}
	if s.until > 0 {
		l.claimed.Add(int64(len(frame)))
	}
	s.note(p, frame, now, l.options.GroupBlocks)
	l.mu.Unlock()
	if p.entries > 0 {
		s.dirty.Store(true)
		l.waiting.Add(-p.bytes)
		l.kept.Add(uint64(p.entries))
		l.chain.Stored(p.entries)
	}
	return nil
}

// frame completes the group of a piece.
func (l *Log) frame(p *piece, now time.Time) []byte {
	var flags byte
	if p.begins {
		flags |= beginsBlock
	}
	age := uint64(l.older(now).Milliseconds())
	if p.entries == 0 {
		frame := p.data[completeFrame(p.data, chainedHead, flags, p.block, now, age):]
		sumFrame(frame)
		return frame
	}
	flags |= chained
	records := len(p.data)
	p.data = append(p.data, make([]byte, SealSize)...)
	completeFrame(p.data, chainedHead, flags, p.block, now, age)
	l.chain.Header(p.data[groupHead:chainedHead], p.entries)
	seal := l.chain.Seal(p.data[frameHead:records])
	copy(p.data[records:], seal[:])
	sumFrame(p.data)
	frame := p.data
	p.data = p.data[:records] // as it was, should it be written again
	return frame
}

// makeRoom sees to it that the active segment can take a piece.
func (l *Log) makeRoom(p *piece, size int64, now time.Time) error {
	if s := l.active; s != nil {
		if err := s.repair(); err != nil {
			return err
		}
		if p.begins && s.size > 0 && (s.size+size > l.options.SegmentBytes || now.Sub(s.begun) >= l.lasts(s)) {
			l.finishActive()
		}
	}
	if l.active != nil {
		return nil
	}
	s, err := l.begin(p.block, now)
	if err != nil {
		return err
	}
	l.active = s
	return nil
}

// lasts is the age that a segment reaches: one with nothing but claims is not
// needed for longer than they are.
func (l *Log) lasts(s *segment) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.entries > 0 {
		return 24 * time.Hour
	}
	return l.options.Life
}
