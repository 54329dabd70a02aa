package parked

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Patience are the params of commands whose models may have to wait for
// somebody to agree.
type Patience struct {
	Wait    *int  `json:"approval_wait_ms,omitempty" range:"0-600000" doc:"time that the request itself waits for somebody to agree to a call of a tool, within its time, before it is answered with finish_reason waiting; 0 not at all; the bridge's setting if absent"`
	Expires int64 `json:"approval_expires_ms,omitempty" range:"1000-7776000000" doc:"time for which a decision is of use; undecided by then the model is told so, and answers without the call; the bridge's setting if absent, or if that is less"`
}

// wait is the time that the call itself waits, less than zero for the configured one.
func (p Patience) wait() time.Duration {
	if p.Wait == nil {
		return -1
	}
	return time.Duration(*p.Wait) * time.Millisecond
}

// A Place keeps what one call of a command comes to, if it comes to wait. It is
// good for as long as the call.
type Place struct {
	service  *Service
	command  string
	who      *protocol.Principal
	patience Patience
	returnTo *commands.ReturnAddress
	request  string
	kept     *Record
}

// Place is the place where a call can be kept; nil without a service.
func (s *Service) Place(call *commands.Call, p Patience) *Place {
	if s == nil {
		return nil
	}
	return &Place{service: s, command: call.Command, who: call.Principal, patience: p, returnTo: call.ReturnAddress(), request: call.RequestID}
}

// Patience is the time that the approval of a call may be waited for; 0 leaves that to
// the bridge.
func (p *Place) Patience() time.Duration { return time.Duration(p.patience.Expires) * time.Millisecond }

// A Traced state knows the trace that it is part of.
type Traced interface{ Trace() string }

// Park keeps the call until the question is settled.
func (p *Place) Park(ctx context.Context, q *tools.Question, state Traced) (err error) {
	p.kept, err = p.service.Park(ctx, Order{Command: p.command, Principal: p.who, TraceID: state.Trace(), Question: q, State: state, ReturnTo: p.returnTo, RequestID: p.request})
	return err
}

// Waiting is the answer to a caller about its call, nil if it was not parked.
func (p *Place) Waiting() *WaitingEvent {
	if p.kept == nil {
		return nil
	}
	e := p.kept.Event()
	return &e
}

// Await waits for the end of the call that is kept here, as long as its caller
// wants, and puts the result in place of another. It leaves that as it is if the
// call still waits. Its caller hears of everything meanwhile.
func (p *Place) Await(ctx context.Context, call *commands.Call, result any) error {
	call.Emit("task.waiting", p.kept.Event())
	answer, ended, err := p.service.Await(ctx, p.kept.ID, p.service.Until(ctx, p.patience.wait()), call.Emit)
	if !ended || err != nil {
		return err
	}
	reflect.ValueOf(result).Elem().SetZero() // what the other one had besides would stay
	return json.Unmarshal(answer, result)
}
