package parked

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// ErrParked is the error of a [Continue] whose task waits again for an approval.
var ErrParked = errors.New("the task waits for an approval")

// writing is the time limit for storing the state of a task.
const writing = protocol.DefaultTimeout

// An Order is the order to park a call: the command, its caller, and its state until
// then.
type Order struct {
	Command   string
	Principal *protocol.Principal
	TraceID   string
	ReturnTo  *commands.ReturnAddress // for the end of the task; nil for none
	RequestID string
	Question  *tools.Question
	State     any // for the [Continue], encoded as JSON
}

// Park stores a task and opens its approval. It returns when both are durable. The
// error is 3004 if too many bytes wait already.
func (s *Service) Park(ctx context.Context, o Order) (*Record, error) {
	id, err := uuid.NewV7() // grows with time, which is the order of task.list
	if err != nil {
		return nil, err
	}
	r := &Record{
		ID: protocol.TaskID(id.String()), Command: o.Command, Grant: grant.Of(o.Principal), TraceID: o.TraceID, Started: s.opts.Now().UnixMilli(),
		ReturnTo: o.ReturnTo, RequestID: o.RequestID,
	}
	asked, err := s.question(r, o.Question, o.State)
	if err != nil {
		return nil, err
	}
	defer asked.release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	revision, err := s.opts.Tasks.Create(ctx, string(r.ID), asked.record)
	if err != nil && revision == 0 { // with a revision it is stored
		if unsure(err) {
			s.disown(r.ID)
			err = protocol.Errorf(protocol.CodeOf(err), "%s", protocol.AsError(err).Message) // a repeat does nothing twice
		}
		return nil, err
	}
	return asked.record, s.ask(ctx, asked, revision)
}

// unsure reports whether a write that failed with an error may have been made, or
// will be: the store did not answer.
func unsure(err error) bool {
	switch protocol.CodeOf(err) {
	case protocol.StoreUnavailable, protocol.TimedOut, protocol.Internal:
		return true
	}
	return false
}

// disown has a task removed as soon as it is seen in the store: its caller got an
// error, and may try again.
func (s *Service) disown(id protocol.TaskID) {
	s.mu.Lock()
	s.disowned[id] = s.opts.Now()
	s.mu.Unlock()
	s.enqueue(id) // the task may be seen already
}

// An asking is the record of a task and the draft of its approval, before both are
// stored. Its bytes are reserved until release.
type asking struct {
	record  *Record
	draft   *approval.Record
	release func()
}

// question returns the asking for a task and its question, or 3004 if there is no room.
func (s *Service) question(r *Record, q *tools.Question, kept any) (*asking, error) {
	draft, ok := q.Draft.(*approval.Record)
	if !ok {
		return nil, protocol.Errorf(protocol.Internal, "the question has no draft")
	}
	asked := *draft
	asked.Task = string(r.ID)
	asks, err := s.seal(r.ID, &asked)
	if err != nil {
		return nil, err
	}
	sealed, err := s.seal(r.ID, kept)
	if err != nil {
		return nil, err
	}
	next := r.waits(&asked, asks, sealed)
	room, err := s.reserve(r, next)
	if err != nil {
		return nil, err
	}
	place, err := s.opts.Approvals.Reserve(&asked)
	if err != nil {
		room()
		return nil, err
	}
	return &asking{next, &asked, func() { room(); place() }}, nil
}

// ask opens the approval of a stored task. If that fails, the task is deleted; if it
// cannot be deleted either, the approval is opened later.
func (s *Service) ask(ctx context.Context, a *asking, revision uint64) error {
	r := a.record
	err := s.opts.Approvals.Open(ctx, a.draft)
	if err == nil {
		s.publish(r, "task.waiting", r.Event())
		return nil
	}
	s.opts.Log.Warn("the question that a task waits for is not stored", "task", r.ID, "error", err)
	if s.opts.Tasks.Delete(ctx, string(r.ID), revision) != nil {
		s.later(r.ID)
		return nil
	}
	return protocol.Errorf(protocol.StoreUnavailable, "the call needs an approval, and its request could not be stored")
}

// seal encodes and encrypts the state of a task.
func (s *Service) seal(id protocol.TaskID, value any) ([]byte, error) {
	var plain bytes.Buffer
	if err := records.Encode(&plain, value); err != nil {
		return nil, protocol.Wrap(protocol.Internal, err, "the state of the task cannot be encoded")
	}
	return s.opts.Sealer.Seal(plain.Bytes(), "parked/"+string(id))
}

// open is the inverse of seal.
func (s *Service) open(id protocol.TaskID, sealed []byte) (json.RawMessage, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	plain, err := s.opts.Sealer.Open(sealed, "parked/"+string(id))
	if err != nil || !json.Valid(plain) {
		return nil, protocol.Errorf(protocol.Internal, "the stored state of the task cannot be read any more")
	}
	return plain, nil
}

// publish publishes an event of a task: on its topic, to its attendances, and at its
// end to the return address if no attendance is left.
func (s *Service) publish(r *Record, event string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		s.opts.Log.Error("an event of a task cannot be told", "task", r.ID, "event", event, "error", err)
		return
	}
	s.mu.Lock()
	s.seqs[r.ID]++
	seq := s.seqs[r.ID]
	listeners := s.heard[r.ID]
	if r.State.Over() { // an attendance answers its caller itself
		delete(s.seqs, r.ID)
		delete(s.heard, r.ID)
	}
	s.mu.Unlock()
	for _, a := range listeners {
		a.hear(event, data)
	}
	e := &protocol.Event{
		Version: protocol.Version, ID: string(r.ID), Timestamp: s.opts.Now().UnixMilli(), Name: event, Seq: seq, Data: raw,
		Metadata: protocol.Metadata{SenderID: s.opts.BridgeID, TraceID: r.TraceID},
	}
	s.opts.Publish(protocol.Everybody(r.Grant.Party().Space), r.ID, e)
	if r.State.Over() && len(listeners) == 0 {
		s.returns(r, *e)
	}
}

// returns sends the end of a task to the return address of its caller, which has got
// task.waiting.
func (s *Service) returns(r *Record, e protocol.Event) {
	if r.ReturnTo == nil || s.opts.Return == nil {
		return
	}
	who, err := s.opts.Grants.Principal(r.Grant)
	if err != nil {
		return
	}
	e.ID, e.Seq = r.RequestID, uint64(r.Ended) // later than every event of the call itself
	s.opts.Return(who, r.ReturnTo, &e)
}
