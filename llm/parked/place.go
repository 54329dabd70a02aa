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

// Patience are the params of commands whose models may have to wait for an approval.
type Patience struct {
	Wait    *int  `json:"approval_wait_ms,omitempty" range:"0-600000" doc:"time that the request itself waits for the approval of a tool call, within its time, before it is answered with finish_reason waiting; 0 not at all; the bridge's setting if absent"`
	Expires int64 `json:"approval_expires_ms,omitempty" range:"1000-7776000000" doc:"time until an approval expires; the model then learns that the call was not approved, and answers without it; the bridge's setting if absent, or if that is less"`
}

// wait is the time that the call itself waits, less than zero for the configured one.
func (p Patience) wait() time.Duration {
	if p.Wait == nil {
		return -1
	}
	return time.Duration(*p.Wait) * time.Millisecond
}

// A Place is the parking place of one call of a command. It lives as long as the call.
type Place struct {
	service  *Service
	command  string
	who      *protocol.Principal
	patience Patience
	returnTo *commands.ReturnAddress
	request  string
	kept     *Record
}

// Place returns the parking place of a call; nil without a service.
func (s *Service) Place(call *commands.Call, p Patience) *Place {
	if s == nil {
		return nil
	}
	return &Place{service: s, command: call.Command, who: call.Principal, patience: p, returnTo: call.ReturnAddress(), request: call.RequestID}
}

// Patience is the time until an approval expires; 0 for the bridge's setting.
func (p *Place) Patience() time.Duration { return time.Duration(p.patience.Expires) * time.Millisecond }

// A Traced is a state with the id of its trace.
type Traced interface{ Trace() string }

// Park parks the call until its question is settled.
func (p *Place) Park(ctx context.Context, q *tools.Question, state Traced) (err error) {
	p.kept, err = p.service.Park(ctx, Order{Command: p.command, Principal: p.who, TraceID: state.Trace(), Question: q, State: state, ReturnTo: p.returnTo, RequestID: p.request})
	return err
}

// Waiting is the event about the parked call for its caller, nil if it was not parked.
func (p *Place) Waiting() *WaitingEvent {
	if p.kept == nil {
		return nil
	}
	e := p.kept.Event()
	return &e
}

// Await waits for the end of the parked call, as long as its caller has asked for, and
// stores its result in result, a pointer. If the call still waits then, result is not
// changed. Events of the task go to the caller meanwhile.
func (p *Place) Await(ctx context.Context, call *commands.Call, result any) error {
	call.Emit("task.waiting", p.kept.Event())
	answer, ended, err := p.service.Await(ctx, p.kept.ID, p.service.Until(ctx, p.patience.wait()), call.Emit)
	if !ended || err != nil {
		return err
	}
	reflect.ValueOf(result).Elem().SetZero() // fields absent from the answer would stay
	return json.Unmarshal(answer, result)
}
