package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/aibridge/aibridge/protocol"
)

// A recordLog is a stream that one process writes records to, in order.
//
// Every append names the sequence it must come after. A repetition of one
// whose acknowledgement was lost therefore cannot be stored twice, however
// late the first arrives; and a second process that writes to the same log is
// found out at once instead of being mixed in.
type recordLog struct {
	store   *Store
	nc      *connection
	stream  string
	subject string
	writer  []byte // the writer's id, in every message
	most    int    // bytes of a record that go into a message at most
	room    int    // how many do of the record that is being appended

	last  uint64 // sequence of the last message in the stream, as far as known
	doubt []byte // a record whose append failed, and which may be stored all the same
	sent  int    // how many of its messages were acknowledged

	reach      *reach
	beforeTrim func(context.Context) error // nil if the reach is not kept
	taken      func(stream string) error   // called when another process writes to the log; its error is returned

	scratch []byte
}

// A record is one entry of a log.
type record struct {
	first, last uint64 // sequences of its messages
	body        []byte
}

// A message of a log is a byte for the position of the part in its record, the
// writer, and the part.
const (
	partWhole byte = iota + 1
	partFirst
	partMiddle
	partLast

	writerSize = 8
	partHead   = 1 + writerSize
)

// maxMessage bounds a message, in bytes, where the server does not bound it more.
const maxMessage = 1 << 20

func newRecordLog(s *Store, stream, subject string) recordLog {
	id := nuid.Next()
	return recordLog{
		store:   s,
		nc:      s.flow,
		stream:  stream,
		subject: subject,
		writer:  []byte(id[len(id)-writerSize:]),
		reach:   new(reach),
		taken:   s.fence,
		most:    maxMessage - partHead,
		room:    roomOf(s.flow, maxMessage-partHead),
	}
}

// roomOf is how much of a record goes into a message as NATS takes them now, and most at
// most: max_payload may change while servers run.
func roomOf(nc *connection, most int) int {
	const headers = 1 << 10 // are enough
	return min(most, max(int(nc.conn.MaxPayload())-headers-partHead, partHead))
}

// append stores a record and returns the sequence of its first message. After
// an error the same record may be appended again; it goes on where it failed.
//
// The messages of an earlier append may arrive at any time, also after
// settle has looked for it. So a log that does not end where it did is looked
// at once more: only another process's message is a failure.
func (l *recordLog) append(ctx context.Context, body []byte) (first uint64, err error) {
	for range writeAttempts {
		sent := 0
		if l.doubt != nil {
			if sent, err = l.settle(ctx, body); err != nil {
				return 0, err
			}
		}
		if sent > 0 && sent == l.parts(body) {
			return l.last + 1 - uint64(sent), nil // it was stored to its end, in parts of whichever length
		}
		if room := roomOf(l.nc, l.most); room != l.room { // the parts are others: readers pass over those that are there
			l.room, sent = room, 0
		}
		if first, err = l.send(ctx, body, sent); !errors.Is(err, errConflict) {
			return first, err
		}
	}
	return 0, protocol.Errorf(protocol.StoreUnavailable, "stream %s does not end where it did", l.stream)
}

// send publishes the messages of a record of which the first are stored, and
// returns the sequence of its first one.
func (l *recordLog) send(ctx context.Context, body []byte, sent int) (first uint64, err error) {
	first = l.last + 1 - uint64(sent)
	for parts := l.parts(body); sent < parts; sent++ {
		if err := l.publish(ctx, l.part(body, sent)); err != nil {
			l.doubt, l.sent = bytes.Clone(body), sent
			return 0, err
		}
	}
	return first, nil
}

// parts is the number of messages of a record.
func (l *recordLog) parts(body []byte) int { return max(1, (len(body)+l.room-1)/l.room) }

// part makes one of the messages of a record. It is valid until the next.
func (l *recordLog) part(body []byte, i int) []byte {
	from, to := i*l.room, min((i+1)*l.room, len(body))
	kind := partMiddle
	switch {
	case from == 0 && to == len(body):
		kind = partWhole
	case from == 0:
		kind = partFirst
	case to == len(body):
		kind = partLast
	}
	l.scratch = append(l.scratch[:0], kind)
	l.scratch = append(l.scratch, l.writer...)
	l.scratch = append(l.scratch, body[from:to]...)
	return l.scratch
}

// publish stores one message after the last one. It fails with errConflict if
// that is not the last one any more.
func (l *recordLog) publish(ctx context.Context, part []byte) error {
	ctx, cancel := bounded(ctx, l.store.options.WriteTimeout)
	defer cancel()
	ack, err := l.store.store(ctx, l.nc, &nats.Msg{
		Subject: l.subject,
		Header:  nats.Header{jetstream.ExpectedLastSeqHeader: {strconv.FormatUint(l.last, 10)}},
		Data:    part,
	})
	if err != nil {
		return err
	}
	l.last = ack.Sequence
	l.reach.last.Store(l.last)
	return nil
}

// claim fences off a process that may still write to the log, with an empty record,
// which readers skip. Its writes in flight and later ones are refused, since the
// end of the log has moved.
func (l *recordLog) claim(ctx context.Context) error {
	ctx, cancel := bounded(ctx, l.store.options.WriteTimeout)
	defer cancel()
	ack, err := l.store.store(ctx, l.nc, &nats.Msg{Subject: l.subject, Data: append([]byte{partWhole}, l.writer...)})
	if err != nil {
		return err
	}
	l.last, l.doubt = ack.Sequence, nil
	l.reach.last.Store(l.last)
	return nil
}

// settle finds out whether the append in doubt was stored. It returns how many
// messages of this record are stored, which is none unless it is the same.
func (l *recordLog) settle(ctx context.Context, body []byte) (sent int, err error) {
	info, err := inspect(ctx, l.nc, l.stream)
	if err != nil {
		return 0, unavailable(err)
	}
	return l.settleAt(ctx, info.State.LastSeq, body)
}

// settleAt is settle in a log that is said to end at a sequence.
func (l *recordLog) settleAt(ctx context.Context, at uint64, body []byte) (sent int, err error) {
	if at < l.last {
		return 0, l.stepBack(ctx, at)
	}
	if at == l.last {
		sent = l.sent
	}
	if at > l.last {
		m, err := lastMessage(ctx, l.nc, l.stream, l.subject)
		if err != nil {
			return 0, unavailable(err)
		}
		if m == nil {
			return 0, protocol.Errorf(protocol.StoreUnavailable, "stream %s has lost its end: its files have failed", l.stream)
		}
		if len(m.Data) < partHead || !bytes.Equal(m.Data[1:partHead], l.writer) {
			return 0, l.taken(l.stream)
		}
		at = m.Sequence
		if at == l.last+1 && bytes.Equal(m.Data, l.part(l.doubt, l.sent)) {
			sent = l.sent + 1
		}
	}
	if !bytes.Equal(body, l.doubt) {
		sent = 0
	}
	l.last, l.doubt = at, nil
	l.reach.last.Store(at)
	return sent, nil
}

// stepBack goes on from an end of the log that lies before messages that were
// acknowledged, if the log does end there. A server of NATS that was away, and still takes itself
// for the leader, may report that end although the messages are there. An empty record decides: it
// must come right at that end, where the leader refuses it, and that server finds no majority for
// it.
func (l *recordLog) stepBack(ctx context.Context, at uint64) error {
	known := l.last
	l.last = at
	if err := l.publish(ctx, append([]byte{partWhole}, l.writer...)); err != nil {
		l.last = known
		return protocol.Errorf(protocol.StoreUnavailable, "stream %s is said to end at %d, before messages that were acknowledged: a server of NATS that was away says so, or they are lost (%v)", l.stream, at, err)
	}
	l.doubt = nil
	l.store.log.Error("acknowledged messages are lost: was NATS restored, or is it not synced to disk?",
		"stream", l.stream, "last", known, "found", at)
	return nil
}

// read calls f for every record, the oldest first, and learns where the log
// begins and ends. Records are valid until f returns. It goes on where it was when NATS falters, and fails when
// nothing comes for [Options.LoadTimeout]. It fails with an integrityError if
// something is missing, unless losses are accepted. Records that were not stored
// to their end, and so never acknowledged, are passed over.
func (l *recordLog) read(ctx context.Context, f func(record) error) error {
	var steps progress
	ctx, cancel := steps.watch(ctx, l.store.options.LoadTimeout)
	defer cancel()
	reader := partReader{stream: l.stream, reuses: true}
	if l.store.options.AcceptLoss {
		reader.passOver = func(err error) {
			l.store.log.Error("going on in spite of a loss, as told", "err", err)
		}
	}
	var failed error // not for NATS's sake
	for {
		err := readStreamFrom(ctx, l.nc, l.stream, reader.at+1, func(m message) error {
			steps.step()
			if err := l.passTrimmed(ctx, &reader, m.seq); err != nil {
				return err
			}
			var r record
			var ok bool
			if r, ok, failed = reader.add(m); ok {
				failed = f(r)
			}
			return failed
		})
		if err == nil {
			if err = l.settleEnds(ctx, &reader); !errors.Is(err, errBehind) {
				return err
			}
		}
		if failed != nil {
			return failed
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		l.store.log.Warn("reading a stream broke off, going on", "stream", l.stream, "after", reader.at, "err", err)
		select {
		case <-time.After(readPause):
		case <-ctx.Done():
		}
	}
}

// passTrimmed has a reader go on at a message if all since its last one were trimmed
// meanwhile: a bridge that served the log until it was taken away may still trim it. A beginning
// that is lost for another reason is found by the extent.
func (l *recordLog) passTrimmed(ctx context.Context, reader *partReader, seq uint64) error {
	if !reader.misses(seq) {
		return nil
	}
	info, err := inspect(ctx, l.nc, l.stream)
	switch {
	case err != nil:
		return err
	case info.State.LastSeq < seq:
		return errBehind
	case info.State.FirstSeq >= seq:
		reader.skip(seq)
	}
	return nil
}

// errBehind is the error of a read with an end of the log before the known one: a server of NATS
// that was away has answered.
var errBehind = errors.New("the stream is said to end before messages that it has")

// readPause is the time to wait before a reading that broke off goes on.
const readPause = 100 * time.Millisecond

// settleEnds checks that everything the stream has was read.
func (l *recordLog) settleEnds(ctx context.Context, reader *partReader) error {
	info, err := inspect(ctx, l.nc, l.stream)
	if err != nil {
		return err
	}
	if info.State.LastSeq < max(l.last, reader.at) {
		return errBehind
	}
	if err := reader.complete(info); err != nil {
		if reader.passOver == nil {
			return err
		}
		reader.passOver(err)
	}
	l.last, l.doubt = info.State.LastSeq, nil
	l.reach.cover(info)
	return nil
}

// trim forgets the entries before a sequence.
func (l *recordLog) trim(ctx context.Context, seq uint64) error {
	if seq > l.last+1 { // NATS would leave a gap
		return fmt.Errorf("store: stream %s ends at %d, it cannot be trimmed to %d", l.stream, l.last, seq)
	}
	return l.purgeBefore(ctx, seq)
}

// purgeBefore is trim without a look at the end, which is for one goroutine
// only.
func (l *recordLog) purgeBefore(ctx context.Context, seq uint64) error {
	if seq <= 1 {
		return nil
	}
	if l.beforeTrim != nil {
		l.reach.first.Store(max(seq, l.reach.first.Load()))
		if err := l.beforeTrim(ctx); err != nil {
			return unavailable(err)
		}
	}
	if err := purge(ctx, l.nc, l.stream, jetstream.WithPurgeSequence(seq)); err != nil {
		return unavailable(err)
	}
	return nil
}

// A partReader puts records together.
type partReader struct {
	stream   string
	first    uint64      // the first message, 0 for none
	at       uint64      // the last message
	open     bool        // a record has begun that has yet to end
	passOver func(error) // hears of damage that is passed over; nil fails
	reuses   bool        // a record is valid until the next one begins

	record record
}

// add takes the next message; ok is true when it completes a record.
func (p *partReader) add(m message) (r record, ok bool, err error) {
	if p.first == 0 {
		p.first = m.seq
	}
	gap := p.misses(m.seq)
	p.at = m.seq
	if gap {
		if p.passOver == nil {
			return r, false, p.damaged(errGap)
		}
		p.open = false
		p.passOver(p.damaged(errGap))
	}
	if len(m.Data) < partHead {
		return r, false, p.damaged(errors.New("not a part of a record"))
	}
	data := m.Data[partHead:]
	switch kind := m.Data[0]; kind {
	case partWhole:
		p.open = false
		return record{m.seq, m.seq, data}, true, nil
	case partFirst:
		var room []byte
		if p.reuses {
			room = p.record.body[:0]
		}
		p.open, p.record = true, record{first: m.seq, body: append(room, data...)}
		return r, false, nil
	case partMiddle, partLast:
		switch {
		case p.open:
		case p.passOver != nil:
			return r, false, nil // its first part is lost
		default:
			return r, false, p.damaged(errors.New("a record without its beginning"))
		}
		p.record.body = append(p.record.body, data...)
		p.record.last = m.seq
		p.open = kind == partMiddle
		return p.record, kind == partLast, nil
	default:
		return r, false, p.damaged(fmt.Errorf("written by a newer bridge: a part of kind %d", kind))
	}
}

// misses reports whether messages are missing between the last one and another.
func (p *partReader) misses(seq uint64) bool { return p.at != 0 && seq != p.at+1 }

// skip goes on at a message, without those before it.
func (p *partReader) skip(seq uint64) { p.at, p.open = seq-1, false }

// complete fails if the stream reports messages at its ends that did not come. It
// may have been trimmed since they were read.
func (p *partReader) complete(info *streamInfo) error {
	state := info.State
	if state.Messages == 0 {
		return nil
	}
	if p.first > max(state.FirstSeq, 1) || p.first == 0 {
		return p.damaged(fmt.Errorf("%w: the stream begins at %d but delivers from %d", errGap, state.FirstSeq, p.first))
	}
	if p.at != state.LastSeq {
		return p.damaged(fmt.Errorf("%w: the stream ends at %d but delivers up to %d", errGap, state.LastSeq, p.at))
	}
	return nil
}

func (p *partReader) damaged(err error) error {
	return &integrityError{subject: p.stream, revision: p.at, err: err}
}
