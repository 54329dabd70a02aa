package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/protocol"
)

// markerLife is the time that the marker of a deletion stays in the stream. Only a
// view that follows needs it; one that lost the thread reads everything anew.
const markerLife = 10 * time.Minute

// writeAttempts bounds how often a write that lost a race it may win is
// repeated.
const writeAttempts = 8

type opKind uint8

const (
	opPut opKind = iota
	opCreate
	opUpdate
	opDelete
)

var opNames = [...]string{opPut: "put", opCreate: "create", opUpdate: "update", opDelete: "delete"}

// An Op is one change of one key, made by the methods of a [Table].
type Op struct {
	kind     opKind
	table    string
	key      string
	expect   uint64
	subject  string
	data     []byte
	revision func() uint64  // of the key in the view, 0 for none
	once     bool           // a key that was removed is not created again
	vital    bool           // of an essential table
	owner    protocol.Party // the party whose budget a new key uses, none for a deletion
	err      error          // the fault of the key or the value
}

// admits fails if the op would add a key while nothing new may be stored.
func (s *Store) admits(op *Op) error {
	if op.vital || op.kind == opUpdate || op.kind == opDelete {
		return nil
	}
	if err := s.options.Full(); err != nil && (op.kind == opCreate || op.revision() == 0) {
		return err
	}
	return nil
}

// subject is the subject under which a key is stored.
func (s *Store) subject(table, key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("store: empty key in table %s", table)
	}
	subject := s.names.registryRoot + table + "." + encodeKey(key)
	if len(subject) > maxSubject {
		return "", protocol.Errorf(protocol.InvalidParameter, "%s key of %d bytes is too long", table, len(key))
	}
	return subject, nil
}

// write makes one change and returns its revision when the view has it.
// An error together with a revision means: stored, but the view did not
// follow in time.
func (s *Store) write(ctx context.Context, op Op) (revision uint64, err error) {
	began := time.Now()
	defer func() { s.metrics.wrote(opNames[op.kind], began, err) }()
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := bounded(ctx, s.options.WriteTimeout)
	defer cancel()
	guard, err := s.guard(ctx, &op)
	if err != nil {
		return 0, err
	}
	settle, err := s.reserve(&op)
	if err != nil {
		return 0, err
	}
	defer settle()
	for wait := busyFirst; ; wait = min(2*wait, busyPause) {
		revision, err = s.publish(ctx, op, guard)
		if !errors.Is(err, errConflict) {
			break
		}
		if guard, err = s.resolve(ctx, &op); err != nil {
			return 0, err
		}
		if err = pause(ctx, wait); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	return revision, s.follow(ctx, revision)
}

// Pauses before a write is tried again that was refused although its keys hold what they
// must: the servers of a cluster refuse the writes to a key while they agree on another
// one, which may come to nothing.
const (
	busyFirst = time.Millisecond // twice as long before each that follows, up to busyPause
	busyPause = 50 * time.Millisecond
)

// pause waits; 5001 if ctx ends first.
func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return protocol.Wrap(protocol.StoreUnavailable, ctx.Err(), "the store is busy with other changes of the same records; try again")
	}
}

// follow waits until the view has a revision that was acknowledged. It gives
// up when NATS goes away: the view follows again only after it is back.
func (s *Store) follow(ctx context.Context, revision uint64) error {
	session := s.state.current()
	during, cancel := session.during(ctx)
	defer cancel()
	if !session.isUp() {
		cancel()
	}
	if err := s.view.position.wait(during, revision); err != nil {
		err = fmt.Errorf("%w: %w", protocol.ErrUnconfirmed, err)
		return protocol.Wrap(protocol.StoreUnavailable, err, "the change is stored, but the bridge does not see it yet")
	}
	return nil
}

// unguarded stands for no expected revision of a key.
const unguarded = ^uint64(0)

// guard is the revision that the key must hold for the op to happen: 0 for
// nothing, unguarded for anything.
func (s *Store) guard(ctx context.Context, op *Op) (uint64, error) {
	if op.err != nil {
		return 0, op.err
	}
	if err := s.admits(op); err != nil {
		return 0, err
	}
	switch {
	case op.kind == opPut:
		return unguarded, nil
	case op.kind == opCreate:
		return 0, nil
	}
	held := op.revision()
	switch {
	case op.expect == 0 && held == 0:
		return 0, op.notFound()
	case op.expect == 0 || op.expect == held:
		return held, nil
	}
	// The stream cannot tell a value from the marker of a deletion, which has
	// a revision too. So a guard is never the caller's revision alone.
	return s.resolve(ctx, op)
}

// resolve asks the stream what a key holds, when the guard did not hold or the
// view disagrees with the caller. It returns the guard to try, or the error
// that the op ends with once the view has seen the reason.
func (s *Store) resolve(ctx context.Context, op *Op) (guard uint64, err error) {
	held, deleted, err := s.held(ctx, op.subject)
	if err != nil {
		return 0, err
	}
	there := held != 0 && !deleted
	switch {
	case op.kind == opCreate && (held == 0 || !there && !op.once):
		return held, nil // over the marker of a deletion, if any
	case op.kind == opDelete && op.expect == 0 && there:
		return held, nil
	case op.expect != 0 && op.expect == held && there:
		return held, nil
	}
	if err := s.follow(ctx, held); err != nil {
		return 0, err
	}
	switch {
	case op.kind == opCreate:
		return 0, protocol.Errorf(protocol.AlreadyExists, "%s %s already exists", op.table, op.key)
	case op.kind == opDelete && !there:
		return 0, op.notFound()
	}
	return 0, protocol.Errorf(protocol.RevisionConflict, "%s %s is not at revision %d", op.table, op.key, op.expect).
		With("expected", op.expect)
}

func (op *Op) notFound() error {
	return protocol.Errorf(protocol.NotFound, "%s %s does not exist", op.table, op.key)
}

// errConflict is the error if a key does not have the expected revision, or a
// stream not the expected end.
var errConflict = errors.New("wrong last sequence")

// publish stores one change if the guard holds and returns its revision.
func (s *Store) publish(ctx context.Context, op Op, guard uint64) (uint64, error) {
	msg, err := s.message(op, guard)
	if err != nil {
		return 0, err
	}
	ack, err := s.store(ctx, s.state, msg)
	return ack.Sequence, err
}

// message is the op on its way to the stream.
func (s *Store) message(op Op, guard uint64) (*nats.Msg, error) {
	const headroom = 1 << 10 // for headers
	if limit := int(s.state.conn.MaxPayload()) - headroom; len(op.data) > limit {
		return nil, protocol.Errorf(protocol.PayloadTooLarge, "%s %s takes %d bytes, the store takes up to %d", op.table, op.key, len(op.data), limit)
	}
	msg := &nats.Msg{Subject: op.subject, Data: op.data}
	if guard == unguarded && op.kind != opDelete {
		return msg, nil
	}
	msg.Header = make(nats.Header, 3)
	if guard != unguarded {
		msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(guard, 10)}
	}
	if op.kind == opDelete {
		msg.Header[kvOperation] = []string{kvDelete}
		msg.Header[jetstream.MsgTTLHeader] = []string{markerLife.String()}
	}
	return msg, nil
}

// The mark of a removed key in NATS's key-value buckets.
const (
	kvOperation = "KV-Operation"
	kvDelete    = "DEL"
	kvPurge     = "PURGE"
)

// isDeletion reports whether a message with these headers removes its key.
func isDeletion(h nats.Header) bool {
	if len(h) == 0 {
		return false
	}
	op := h.Get(kvOperation)
	return op == kvDelete || op == kvPurge || h.Get("Nats-Marker-Reason") != ""
}

// slow is the time that a stream that works takes no longer than for a write.
const slow = time.Second

// A pubAck is JetStream's answer to a publish.
type pubAck struct {
	Sequence uint64    `json:"seq"`
	Error    *apiError `json:"error"`
}

// store publishes a message to a stream and waits until it is durable. It
// fails with errConflict or with a protocol error.
func (s *Store) store(ctx context.Context, l *connection, msg *nats.Msg) (pubAck, error) {
	began := time.Now()
	var ack pubAck
	err := s.onceLed(ctx, func() (err error) {
		ack, err = storeMessage(ctx, l, msg)
		return err
	})
	switch {
	case errors.Is(err, errConflict):
		s.pulse.wrote(msg.Subject, nil)
	case !errors.Is(err, context.DeadlineExceeded) || time.Since(began) >= slow: // else the caller had no time
		s.pulse.wrote(msg.Subject, err)
	}
	return ack, err
}

// Patience with a stream that has no leader.
const (
	leaderFirst = 20 * time.Millisecond // before the second attempt; twice as long before each that follows, up to leaderPause
	leaderPause = time.Second
	leaderLast  = 2 * time.Second // altogether
)

// onceLed writes again while the stream has no leader, as for a moment after a
// server of a cluster has ended: a write without a leader is not stored. While the
// store is known not to work, it fails at once for callers that are not patient.
func (s *Store) onceLed(ctx context.Context, write func() error) error {
	last := time.Now().Add(patience(ctx, leaderLast))
	for pause := leaderFirst; ; pause = min(2*pause, leaderPause) {
		err := write()
		if !errors.Is(err, nats.ErrNoResponders) || s.pulse.bad.Load() && !isPatient(ctx) || time.Now().Add(pause).After(last) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// storeMessage is store of any stream, asked once.
func storeMessage(ctx context.Context, l *connection, msg *nats.Msg) (pubAck, error) {
	answer, err := l.request(ctx, msg)
	if err != nil {
		return pubAck{}, unwritten(err)
	}
	var ack pubAck
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return pubAck{}, fmt.Errorf("store: strange acknowledgement: %w", err)
	}
	switch {
	case ack.Error == nil:
		return ack, nil
	case ack.Error.ErrCode == jsWrongLastSequence, ack.Error.ErrCode == jsWrongLastSequenceConstant:
		return pubAck{}, errConflict
	}
	return pubAck{}, protocol.Wrap(protocol.StoreUnavailable, ack.Error, "the store refused the write")
}

// held asks the stream itself what a key holds: the revision, 0 for nothing,
// and whether that is the marker of a deletion.
func (s *Store) held(ctx context.Context, subject string) (revision uint64, deleted bool, err error) {
	m, err := lastMessage(ctx, s.state, s.names.registry, subject)
	switch {
	case err != nil:
		return 0, false, unavailable(err)
	case m == nil:
		return 0, false, nil
	case len(m.Header) == 0:
		return m.Sequence, false, nil
	}
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil {
		return 0, false, fmt.Errorf("store: strange headers: %w", err)
	}
	return m.Sequence, isDeletion(header), nil
}
