package approval

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

var (
	alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleOperator}}
	bob   = &protocol.Principal{Kind: protocol.KindOperator, ID: "bob", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleOperator}}
	bot   = &protocol.Principal{Kind: protocol.KindAgent, ID: "bot", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleRouteAgent}}
	eve   = &protocol.Principal{Kind: protocol.KindOperator, ID: "eve", Space: "elsewhere", Roles: []string{protocol.RoleOperator}}
)

// desk is a service and what it tells.
type desk struct {
	*Service
	table  *recordstest.Memory[Record]
	events chan *protocol.Event // as approvers hear them
	audit  chan string
}

func newDesk(t testing.TB, change ...func(*Options)) *desk {
	t.Helper()
	d := &desk{table: recordstest.New[Record](), events: make(chan *protocol.Event, 64), audit: make(chan string, 64)}
	o := Options{
		Approvals: d.table,
		MayDecide: func(who *protocol.Principal, space protocol.SpaceID, _ string) bool { return who.Manages(space) },
		Publish:   func(_ protocol.Recipients, e *protocol.Event) { d.events <- e },
		Record:    func(e Event) { d.audit <- e.Name },
		AskAbout:  []string{"medium"},
	}
	for _, f := range change {
		f(&o)
	}
	d.Service = New(o)
	return d
}

// asked is the next approval that approvers are asked for.
func (d *desk) asked(t testing.TB) Approval {
	t.Helper()
	for {
		e := <-d.events
		if e.Name != "approval.requested" {
			continue
		}
		var a Approval
		if err := json.Unmarshal(e.Data, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
}

func (d *desk) decide(who *protocol.Principal, a Approval, decision, reason string) error {
	_, err := d.Decide(context.Background(), &commands.Call{Principal: who}, DecideParams{ID: a.ID, Nonce: a.Nonce, Decision: decision, Reason: reason})
	return err
}

func (d *desk) state(id string) State {
	r, _, _ := d.table.Get(id)
	return r.State
}

var oven = &tools.Tool{Declaration: tools.Declaration{Name: "oven.heat", Risk: "high", Source: "skill"}}

func heat(who *protocol.Principal) *tools.Execution {
	return &tools.Execution{Environment: tools.Environment{Principal: who, TraceID: "t-1"}, CallID: "c", Name: "oven.heat", ArgumentsJSON: json.RawMessage(`{"celsius":220}`)}
}

// gate runs the gate on its own.
func (d *desk) gate(ctx context.Context, t *tools.Tool, x *tools.Execution) <-chan error {
	passed := make(chan error, 1)
	go func() { passed <- d.Gate(ctx, t, x) }()
	return passed
}

func reason(err error) any {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e.Details["reason"]
	}
	return err
}
