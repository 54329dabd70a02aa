package parked

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// ErrParked is what a [Continue] returns of a task that waits again.
var ErrParked = errors.New("the task waits for an approval")

// writing is how long the state of a task may take to be stored.
const writing = protocol.DefaultTimeout

// An Order is what is to be kept: the call of a command that cannot go on now.
type Order struct {
	Command   string
	Principal *protocol.Principal
	TraceID   string
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
	}
	next, err := s.question(r, o.Question, o.State)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	revision, err := s.opts.Tasks.Create(ctx, string(r.ID), next)
	if err != nil {
		return nil, err
	}
	return next, s.ask(ctx, next, revision)
}

// question is the record of a task that waits for the answer to a question.
func (s *Service) question(r *Record, q *tools.Question, kept any) (*Record, error) {
	draft, ok := q.Draft.(*approval.Record)
	if !ok {
		return nil, protocol.Errorf(protocol.Internal, "the question has no draft")
	}
	sealed, err := s.seal(r.ID, kept)
	if err != nil {
		return nil, err
	}
	next := r.waits(draft, sealed)
	return next, s.room(r, next)
}

// room says why no more can be kept.
func (s *Service) room(old, next *Record) error {
	before := 0
	if old.State == Running {
		before = old.bytes()
	}
	more := next.bytes()
	own, all := s.tally.of(next.Grant.Party())
	switch {
	case more > s.opts.MaxKept:
		return protocol.Errorf(protocol.LimitReached, "the conversation has more than %d bytes, which is too much to be kept for an approval", s.opts.MaxKept).
			With("limit", s.opts.MaxKept).With("reason", "parked_bytes")
	case own-before+more > s.opts.MaxOwnBytes:
		return protocol.Errorf(protocol.LimitReached, "your conversations that wait for approvals have %d bytes together, which is the limit", s.opts.MaxOwnBytes).
			With("limit", s.opts.MaxOwnBytes).With("reason", "parked_bytes_of_principal")
	case all-before+more > s.opts.MaxOpenBytes:
		return protocol.Errorf(protocol.LimitReached, "the conversations of the space that wait for approvals are too long together").
			With("limit", s.opts.MaxOpenBytes).With("reason", "parked_bytes_of_space")
	}
	return nil
}

// ask has the question of a stored task asked. Where that fails the task does
// not wait; where not even that can be stored it is asked later.
func (s *Service) ask(ctx context.Context, r *Record, revision uint64) error {
	err := s.opts.Approvals.Open(ctx, r.Question)
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
	plain, err := json.Marshal(value)
	if err != nil {
		return nil, protocol.Wrap(protocol.Internal, err, "what is to be kept cannot be written")
	}
	return s.opts.Sealer.Seal(plain, "parked/"+string(id))
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
	s.seq++
	seq := s.seq
	listeners := s.heard[r.ID]
	s.mu.Unlock()
	for _, a := range listeners {
		a.hear(event, data)
	}
	s.opts.Publish(protocol.Everybody(r.Grant.Party().Space), r.ID, &protocol.Event{
		Version: protocol.Version, ID: string(r.ID), Timestamp: s.opts.Now().UnixMilli(), Name: event, Seq: seq, Data: raw,
		Metadata: protocol.Metadata{SenderID: s.opts.BridgeID, TraceID: r.TraceID},
	})
}
