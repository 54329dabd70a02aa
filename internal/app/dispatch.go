package app

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/task"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security/audit"
)

// newDispatcher makes the part that carries commands to groups.
func (a *App) newDispatcher(agents *registry.Service, mqtt *mqttdoor.Clients) *dispatch.Engine {
	return dispatch.New(dispatch.Options{
		Dispatches: store.NewTable[dispatch.Dispatch](a.store, "dispatch"),
		Batches:    store.NewTable[dispatch.Batch](a.store, "batch"),
		Asker:      asker{agents},
		MayAsk:     a.mayStillAsk,
		Grants:     a.credentials,
		Publish:    mqtt.PublishTask,
		BridgeID:   a.config.ID,
		Log:        a.log,
	})
}

// mayStillAsk says why who started a dispatch may not have a member asked any
// more. It is decided as if it asked now: by the credential it showed, policy,
// and its part in the group.
func (a *App) mayStillAsk(d *dispatch.Dispatch, skill protocol.SkillID) error {
	err := a.judgeAgain(d, skill)
	if err != nil {
		a.audit.Record(context.Background(), audit.Entry{
			Time: time.Now(), Event: "group.dispatch.denied", Code: string(protocol.CodeOf(err)), Reason: err.Error(), Security: true,
			Action: "skill:invoke", Resource: "skill/" + string(skill), TraceID: d.TraceID,
			Details: map[string]string{"task_id": string(d.ID), "cap_id": string(d.Cap), "group_id": string(d.Group)},
		}.ByGrant(d.Caller.Grant))
	}
	return err
}

func (a *App) judgeAgain(d *dispatch.Dispatch, skill protocol.SkillID) error {
	who, err := a.credentials.Principal(d.Caller.Grant)
	if err != nil {
		return protocol.Errorf(protocol.PermissionDenied, "the credential that the dispatch was started with is no longer valid: %s", protocol.AsError(err).Message).With("reason", "credential")
	}
	if err := a.channels.MayStillDispatch(who, d); err != nil {
		return err
	}
	call := &commands.Call{Principal: who, Command: "group.dispatch", SenderID: d.Caller.Sender, TraceID: d.TraceID, Door: d.Caller.Door, Address: d.Caller.Address}
	group := commands.Resource{Type: "group", ID: string(d.Cap) + "/" + string(d.Group)}
	if err := a.authorizer.AuthorizeCall(call, "group:dispatch", group); err != nil {
		return err
	}
	return a.authorizer.AuthorizeCall(call, "skill:invoke", commands.Resource{Type: "skill", ID: string(skill), Space: d.Space})
}

// An asker has the registry invoke skills for dispatches.
type asker struct{ agents *registry.Service }

var _ dispatch.Asker = asker{}

func (a asker) Prepare(space protocol.SpaceID, skill protocol.SkillID, capability protocol.CapabilityID, params json.RawMessage) (bool, error) {
	return a.agents.CheckInvocation(space, skill, capability, params)
}

func (a asker) Choose(space protocol.SpaceID, skill protocol.SkillID) (protocol.AgentID, bool) {
	return a.agents.ChooseAgent(space, skill)
}

func (a asker) Reachable(space protocol.SpaceID, agent protocol.AgentID) bool {
	return a.agents.AgentReachable(space, agent)
}

func (a asker) Send(q *dispatch.Question) error   { return a.agents.Send(standing(q)) }
func (a asker) Expect(q *dispatch.Question)       { a.agents.Expect(standing(q)) }
func (a asker) Recall(q *dispatch.Question) error { return a.agents.Recall(standing(q)) }
func (a asker) Drop(id string)                    { a.agents.Drop(id) }

func (a asker) Cancel(q *dispatch.Question, reason string) {
	a.agents.CancelStanding(standing(q), reason)
}

func standing(q *dispatch.Question) *registry.DurableCall {
	return &registry.DurableCall{
		ID: q.ID, Space: q.Space, Skill: q.Skill, Agent: q.Agent, Capability: q.Capability, Params: q.Params, Extension: q.Extension,
		Caller: q.Caller, TraceID: q.TraceID, Priority: q.Priority, Deadline: q.Deadline, Listener: hearer(q.Hear),
	}
}

// A hearer passes on what the registry hears.
type hearer func(dispatch.Hearing)

var _ registry.Listener = hearer(nil)

func (h hearer) Answered(data json.RawMessage) {
	h(dispatch.Hearing{Kind: dispatch.Answered, Data: data})
}
func (h hearer) Refused(err *protocol.Error)  { h(dispatch.Hearing{Kind: dispatch.Refused, Err: err}) }
func (h hearer) Declined(err *protocol.Error) { h(dispatch.Hearing{Kind: dispatch.Declined, Err: err}) }
func (h hearer) Took()                        { h(dispatch.Hearing{Kind: dispatch.Took}) }
func (h hearer) Progressed(data []byte)       { h(dispatch.Hearing{Kind: dispatch.Progressed, Data: data}) }
func (h hearer) Left()                        { h(dispatch.Hearing{Kind: dispatch.Left}) }
func (h hearer) Mute()                        { h(dispatch.Hearing{Kind: dispatch.Mute}) }
func (h hearer) Forgotten(listening time.Time) {
	h(dispatch.Hearing{Kind: dispatch.Forgotten, Since: listening})
}

// groupTasks shows dispatches as tasks.
type groupTasks struct{ engine *dispatch.Engine }

var _ task.Source = groupTasks{}

func (g groupTasks) Get(id protocol.TaskID) (*task.Task, bool) {
	v, ok := g.engine.Get(id)
	if !ok {
		return nil, false
	}
	return groupTask(v), true
}

func (g groupTasks) All() iter.Seq[*task.Task] {
	return func(yield func(*task.Task) bool) {
		for v := range g.engine.All() {
			if !yield(groupTask(v)) {
				return
			}
		}
	}
}

func (g groupTasks) Cancel(ctx context.Context, id protocol.TaskID, reason string) error {
	return g.engine.Cancel(ctx, id, reason)
}

func groupTask(v dispatch.View) *task.Task {
	t := &task.Task{
		ID: v.ID, Command: "group.dispatch", State: task.State(v.Outcome), Principal: v.Principal, Space: v.Home, TraceID: v.TraceID,
		Started: time.UnixMilli(v.StartedAt).UTC(),
		Group: &task.Group{
			Cap: v.Cap, Group: v.Group, Capability: v.Capability,
			Completion: string(v.Completion.Policy), N: v.Completion.N, Deadline: v.Deadline,
		},
	}
	if v.Caller != nil {
		t.Kind = v.Caller.Kind
	}
	if v.End != nil {
		ended := time.UnixMilli(v.End.At).UTC()
		t.Ended = &ended
		if v.Outcome == dispatch.Called {
			t.Error = &task.Failure{Code: protocol.Cancelled, Message: v.End.Reason, Details: map[string]any{}}
		}
	}
	if v.Counts != nil {
		t.Group.Counts = make(map[string]int, len(v.Counts))
		for state, n := range v.Counts {
			t.Group.Counts[string(state)] = n
		}
	}
	for _, m := range v.Members {
		t.Group.Members = append(t.Group.Members, task.Member{
			Skill: m.Skill, Role: m.Role, Agent: m.Agent, State: string(m.State), At: m.At, Late: m.Late,
			Data: m.Data, Dropped: m.Dropped, Error: failureOf(m.Error),
		})
	}
	return t
}

func failureOf(f *dispatch.Failure) *task.Failure {
	if f == nil {
		return nil
	}
	details := f.Details
	if details == nil {
		details = map[string]any{}
	}
	return &task.Failure{Code: f.Code, Message: f.Message, Details: details}
}
