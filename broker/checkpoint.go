package broker

import (
	"context"
	"encoding/binary"
)

const (
	checkpointAfter = 32 << 20 // bytes of log at least
	checkpointChunk = 512 << 10
)

// maybeCheckpoint rewrites what the log still means and trims the rest, when
// the log has grown to several times that. Sessions are written one by one
// while the broker works on: each starts with a reset, and what happens to it
// later stands later in the log.
func (j *scribe) maybeCheckpoint(t *turn) {
	if j.logged < max(j.b.options.checkpointAfter, 3*j.kept) {
		return
	}
	if err := j.checkpoint(context.Background(), t); err != nil {
		j.b.log.Error("journal can't be trimmed", "error", err)
		j.logged = 0 // try again later
	}
}

// lastCheckpoint leaves the next process a log of what still counts, unless
// most of the log does. It gives up with ctx: the log is whole without it.
func (j *scribe) lastCheckpoint(ctx context.Context, t *turn) {
	if j.logged <= 2*j.kept {
		return
	}
	if err := j.checkpoint(ctx, t); err != nil {
		j.b.log.Warn("journal is not trimmed, the next start reads more of it", "error", err)
	}
}

// checkpoint ends early, and trims nothing, when ctx does.
func (j *scribe) checkpoint(ctx context.Context, t *turn) error {
	j.mu.Lock()
	j.checked++
	for _, m := range j.marks {
		j.entry = appendMark(j.entry, m)
	}
	j.mu.Unlock()
	first, total := uint64(0), 0
	flushFull := func() error {
		j.mu.Lock()
		full := len(j.entry) >= checkpointChunk
		j.mu.Unlock()
		if !full {
			return nil
		}
		seq, n, err := j.flush(t)
		if err != nil {
			return err
		}
		total += n
		if first == 0 {
			first = seq
		}
		return ctx.Err()
	}
	for _, s := range j.b.allSessions() {
		j.snapshot(t, s)
		if err := flushFull(); err != nil {
			return err
		}
	}
	for _, k := range j.b.origins.all() {
		j.log(t, func(dst []byte) []byte { return appendKnown(dst, k, k.given) })
		if err := flushFull(); err != nil {
			return err
		}
	}
	seq, n, err := j.flush(t)
	if err != nil {
		return err
	}
	if first == 0 {
		first = seq
	}
	j.kept, j.logged = total+n, total+n
	if first == 0 {
		return nil
	}
	trim, cancel := j.context()
	defer cancel()
	return j.out.Trim(trim, first)
}

// snapshot records everything that is owed to a session.
func (j *scribe) snapshot(t *turn, s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || !s.record.known {
		return
	}
	j.log(t, func(dst []byte) []byte { return j.appendSession(dst, s, func(*message) {}) })
}

// appendSession appends everything that is owed to a session. Messages that have
// no number may be given one first; without it they are left out.
func (j *scribe) appendSession(dst []byte, s *session, number func(*message)) []byte {
	serial := s.record.serial
	dst = binary.AppendUvarint(append(dst, recReset), serial)
	kept := func(p *pending, id uint16) {
		if p.msg != nil {
			number(p.msg)
		}
		dst = j.appendKept(dst, serial, p, id)
	}
	for id := s.window.first; id != 0; id = s.window.slots[id-1].next {
		slot := &s.window.slots[id-1]
		kept(&slot.pending, id)
		if slot.state == awaitPubcomp {
			dst = appendID(dst, recReleased, serial, id)
		}
	}
	for i := s.queue.from; i < len(s.queue.items); i++ {
		if p := &s.queue.items[i]; p.qos > 0 {
			kept(p, 0)
		}
	}
	for id := range s.inbound {
		if s.accepting[id] == nil {
			dst = appendID(dst, recInbound, serial, id)
		}
	}
	return appendSender(dst, serial, &s.sender, s.sender.recorded)
}

// appendKept appends a message owed, with its body where this
// generation of the log does not have it.
func (j *scribe) appendKept(dst []byte, serial uint64, p *pending, id uint16) []byte {
	if p.msg == nil || p.msg.id == 0 {
		return dst
	}
	if p.msg.logged != j.checked {
		dst = j.appendBody(dst, p.msg)
	}
	return appendOwed(dst, serial, p, id)
}
