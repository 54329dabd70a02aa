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

// ErrParked is the error of a [Continue] whose task waits again.
var ErrParked = errors.New("the task waits for an approval")

// writing is the time that the state of a task may take to be stored.
const writing = protocol.DefaultTimeout

// An Order is what is to be kept: the call of a command that cannot go on now.
type Order struct {
	Command   string
	Principal *protocol.Principal
	TraceID   string
	ReturnTo  *commands.ReturnAddress // nil for nobody
	RequestID string
	Question  *tools.Question
	State     any // to go on with, encoded as JSON
}

// Park keeps a task, and has the question asked that it waits for. It returns
// when both are durable. 3004 says that too much waits already.
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

// disown has a task removed as soon as it is there: whoever wanted it was told that
// it is not kept, and may try again.
func (s *Service) disown(id protocol.TaskID) {
	s.mu.Lock()
	s.disowned[id] = s.opts.Now()
	s.mu.Unlock()
	s.enqueue(id) // it may be there already
}

// An asking is a task that is to wait, with the question that it waits for. It has
// its room until release.
type asking struct {
	record  *Record
	draft   *approval.Record
	release func()
}

// question makes a task wait for the answer to a question, if there is room.
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

// ask has the question of a stored task asked. Where that fails the task does
// not wait; where not even that can be stored it is asked later.
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
	return protocol.Errorf(protocol.StoreUnavailable, "somebody would have to agree to the call, and could not be asked")
}

// seal encrypts what is kept of a task.
func (s *Service) seal(id protocol.TaskID, value any) ([]byte, error) {
	var plain bytes.Buffer
	if err := records.Encode(&plain, value); err != nil {
		return nil, protocol.Wrap(protocol.Internal, err, "what is to be kept cannot be written")
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
		return nil, protocol.Errorf(protocol.Internal, "what was kept of the task cannot be read any more")
	}
	return plain, nil
}

// publish tells of a task on its topic.
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
	if r.State.Over() { // who attends until now answers its caller by itself
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

// returns tells the caller of a task of its end, who was told that it waits.
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
