package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// launch starts the engine of a reserved run. The record of the run is durable when it
// returns. The run is released at its rest or after an error.
func (s *Service) launch(ctx context.Context, l *live, o *opened, w word) error {
	r := *l.now()
	said := &wordEntry{Intent: w.intent, Node: o.workspace.node(ctx), Input: w.input}
	r.Phase, r.Waits, r.Code, r.Reason, r.Last, r.Changed, r.Node = Running, nil, "", "", nil, s.opts.Now().UTC(), s.opts.Node
	err := o.diary.addWithin(ctx, &entry{Word: said}, true)
	if err == nil {
		err = s.store(ctx, l, &r)
	}
	if err != nil {
		s.close(l, o)
		s.release(l)
		return told(goesOn(err, r.ID))
	}
	s.tell(l, eventPhase, phaseEvent{Phase: Running})
	go s.carry(l, s.engine(l, o), o, w)
	return nil
}

// goesOn returns the error for callers of a run that another bridge runs meanwhile.
func goesOn(err error, id string) error {
	if errors.Is(err, errElsewhere) {
		return protocol.Errorf(protocol.InvalidState, "the run is running").With("run_id", id).With("phase", string(Running))
	}
	return err
}

// engine returns the engine of a run.
func (s *Service) engine(l *live, o *opened) *engine {
	r := l.now()
	kit := &toolkit{
		executor: s.opts.Executor, bridge: s.opts.Catalogue, env: s.environment(r), where: o.workspace.node,
		own:     o.workspace.fileTools(),
		effects: o.effects, diary: o.diary,
		young: s.young, pause: s.pausing, now: s.opts.Now, approvals: s.opts.Approvals,
		record: s.recorder(l.ctx, o.workspace.mounts.State, r),
	}
	e := &engine{
		asker: s.opts.Asker, where: o.workspace, hands: kit, diary: o.diary,
		approvals: s.opts.Approvals,
		withdraw:  s.withdraw,
		tell: func(event string, data any) {
			if event == eventTurn {
				s.metrics.turns.Inc()
			}
			s.tell(l, event, data)
		},
		prompt:   prompt{mode: r.Mode, autopilot: r.Autopilot, workflow: r.Workflow},
		stream:   r.Stream,
		limits:   limitsOf(cmp.Or(r.MaxTurns, s.opts.MaxTurns)),
		turns:    len(o.story.turns),
		spent:    o.story.spent,
		now:      s.opts.Now,
		pause:    s.pausing,
		owner:    func() (*protocol.Principal, error) { return s.owner(r) },
		relevant: s.opts.Retriever,
	}
	e.question.Space, e.question.Skill, e.question.Model, e.question.Run = r.Owner.Space, r.Skill, r.Model, r.ID
	if w := o.workspace.workflow; w != nil {
		e.prompt.workflow, e.prompt.graph = cmp.Or(w.ID, w.WorkflowEntry.Workflow), w.WorkflowEntry.Graph
	}
	return e
}

// environment returns the environment of a run's tools, with the current rights of its
// owner.
func (s *Service) environment(r *Record) func() (tools.Environment, error) {
	return func() (tools.Environment, error) {
		who, err := s.owner(r)
		return tools.Environment{
			Principal: who, Space: r.Owner.Space, Skill: r.Skill, Session: r.ID, TraceID: r.TraceID, Task: r.ID, Parks: s.parks,
			Patience: time.Duration(r.Expires) * time.Millisecond,
		}, err
	}
}

// owner is the principal that started a run, with its current rights, or an error if
// the run may not continue.
func (s *Service) owner(r *Record) (*protocol.Principal, error) {
	who, err := s.opts.Grants.Principal(r.Owner)
	if err != nil {
		return nil, &endedError{err}
	}
	return who, nil
}

// carry runs the engine until the run is at rest, and stores the rest.
func (s *Service) carry(l *live, e *engine, o *opened, w word) {
	stop := s.perform(l, e, w)
	switch stop.Phase {
	case Running:
		s.close(l, o)
		s.release(l)
		return // resumed after a restart, or by another bridge
	case WaitingApproval: // the diary has its waitEntry
		s.close(l, o)
		s.settle(l, stop, e.turns)
		return
	}
	rest := restEntry{At: s.opts.Now().UTC(), Phase: stop.Phase, Code: stop.Code, Reason: stop.Reason, Message: stop.Message, Questions: stop.Questions}
	if err := o.diary.add(&entry{Rest: &rest}, true); err != nil {
		s.opts.Log.Error("the rest of a run is not written to its diary", "run", l.id, "error", err)
	}
	s.close(l, o)
	s.settle(l, stop, e.turns)
}

// perform runs an engine, and turns its panic into a stop.
func (s *Service) perform(l *live, e *engine, w word) (stop Stop) {
	ctx, rest := s.startSpan(l.ctx, l, e)
	defer func() { rest(stop) }()
	defer func() {
		if p := recover(); p != nil {
			s.opts.Log.Error("the engine of a run panicked", "run", l.id, "panic", fmt.Sprint(p))
			stop = stopped(Failed, fault.Internal, "internal error")
		}
	}()
	ctx, end := grant.While(ctx, s.opts.Grants, l.now().Owner)
	defer end()
	return e.run(ctx, w)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
