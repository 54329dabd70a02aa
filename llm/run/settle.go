package run

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// settle stores the rest of a run, releases the run, and then publishes the rest, since
// a listener may continue the run at once.
func (s *Service) settle(l *live, stop Stop, turns int) {
	r := *l.now()
	waited := r.Waits
	r.Phase, r.Waits, r.Code, r.Reason, r.Changed, r.Turns = stop.Phase, stop.waits.waits(), stop.Code, stop.Reason, s.opts.Now().UTC(), turns
	r.Node = ""
	l.mu.Lock()
	r.Seq = l.seq + 2 // for the events below
	l.mu.Unlock()
	r.Last = s.seal(r.ID, last{Message: stop.Message, Questions: stop.Questions})
	switch err := s.keep(l, &r); {
	case errors.Is(err, errElsewhere), err != nil && stop.waits != nil:
		if stop.waits != nil {
			stop.waits.release()
		}
		s.release(l)
		if !errors.Is(err, errElsewhere) {
			s.resumeLater(r.ID) // the diary has its waitEntry
		}
		return // with errElsewhere the other bridge stores its rest
	}
	l.mu.Lock()
	l.record = &r
	l.mu.Unlock()
	if stop.waits != nil {
		s.ask(l.ctx, r.ID, stop.waits)
	}
	if waited != nil && (r.Waits == nil || r.Waits.Approval != waited.Approval) {
		s.withdraw(waited.Approval, "the run does not need the call any more")
	}
	s.release(l)
	s.metrics.rested(stop)
	waits := r.Waits.event(r.ID)
	s.tell(l, eventPhase, phaseEvent{stop.Phase, stop.Code, stop.Reason, stop.Message, stop.Questions, waits})
	if waits != nil {
		s.tell(l, eventWaiting, waits)
		s.settled(r.ID) // the approval may be settled already
	}
}

const (
	keepTries = 8
	keepTime  = 10 * time.Second
)

// keep stores a record. It repeats failed writes for a while, since without the record
// the run would be resumed after a restart.
func (s *Service) keep(l *live, r *Record) error {
	wait := 100 * time.Millisecond
	for n := 1; ; n++ {
		ctx, cancel := context.WithTimeout(context.Background(), keepTime)
		err := s.store(ctx, l, r)
		cancel()
		if err == nil || errors.Is(err, errElsewhere) {
			return err
		}
		if n == keepTries || pause(s.ctx, wait) != nil {
			s.opts.Log.Error("the end of a run is not stored", "run", r.ID, "phase", r.Phase, "error", err)
			return err
		}
		wait *= 2
	}
}

// store makes r the record of a reserved run. The error is errElsewhere if another
// bridge has changed the record meanwhile.
func (s *Service) store(ctx context.Context, l *live, r *Record) error {
	l.mu.Lock()
	held := l.revision
	l.mu.Unlock()
	var revision uint64
	var err error
	if held == 0 {
		revision, err = s.opts.Runs.Create(ctx, r.ID, r)
	} else {
		revision, err = s.opts.Runs.Update(ctx, r.ID, r, held)
	}
	if records.Raced(err) {
		there, at, ok := s.opts.Runs.Get(r.ID)
		if !ok || !records.Same(there, r) {
			return errElsewhere
		}
		revision, err = at, nil // the write succeeded without a confirmation
	}
	if err != nil && revision == 0 { // with a revision it is stored, although the bridge does not see it yet
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record, l.revision = r, revision
	return nil
}

// tell publishes an event of a run.
func (s *Service) tell(l *live, event string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		return
	}
	body := append(protocol.AppendString([]byte(`{"run_id":`), l.id), ',')
	body = append(body, raw[1:]...) // every event has fields
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	l.heard(data, s.opts.Now())
	s.opts.Publish(protocol.Everybody(l.record.Owner.Party().Space), protocol.TaskID(l.id), &protocol.Event{
		Version: protocol.Version, ID: l.id, Timestamp: s.opts.Now().UnixMilli(), Name: event, Seq: l.seq, Data: body,
		Metadata: protocol.Metadata{SenderID: s.opts.BridgeID, TraceID: l.record.TraceID},
	})
}
