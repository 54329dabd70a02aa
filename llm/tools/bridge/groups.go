package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// Wait returns when a task has ended, or soon after ctx.
type Wait func(ctx context.Context, task protocol.TaskID) error

// groups is the source of the tool that dispatches to the members of a group: one tool
// for all groups, with a selector of members.
type groups struct {
	skills *Skills
	invoke Invoke
	wait   Wait
	may    May
	tool   *tools.Tool
}

const (
	dispatchName   = "group.dispatch"
	dispatchAction = "group:dispatch"
)

// dispatchSchema is the schema of the params of group.dispatch without the deadline,
// which is that of the call.
var dispatchSchema = json.RawMessage(`{
"type":"object","required":["cap_id","group_id","capability_id"],"additionalProperties":false,
"properties":{
"cap_id":{"type":"string","description":"the Cap the group belongs to"},
"group_id":{"type":"string","description":"the group"},
"capability_id":{"type":"string","description":"the capability that every member runs"},
"params":{"type":"object","description":"the params of the capability, the same for all"},
"target":{"type":"object","additionalProperties":false,"description":"selector of members: those that match all given fields; all members if absent","properties":{
"role":{"type":"string","description":"only members in this role"},
"skill_ids":{"type":"array","items":{"type":"string"},"description":"only these members"},
"attributes":{"type":"object","additionalProperties":{"type":"string"},"description":"only members with all of these attributes"},
"online_only":{"type":"boolean","description":"only members that are online now; without it, offline members are waited for"}}},
"completion":{"type":"object","additionalProperties":false,"description":"condition of the end; all members have answered if absent","properties":{
"policy":{"type":"string","enum":["all","quorum","first","deadline"],"description":"all: every member succeeded; quorum: n succeeded, the others go on; first: n succeeded, the others are cancelled; deadline: the members that succeeded in time"},
"n":{"type":"integer","description":"how many, for quorum and first"}}}}}`)

// NewGroups returns the source of the tool group.dispatch. Skills holds the
// declarations of the members.
func NewGroups(skills *Skills, invoke Invoke, wait Wait, may May) tools.Source {
	g := &groups{skills: skills, invoke: invoke, wait: wait, may: may}
	g.tool = &tools.Tool{
		Declaration: tools.Declaration{
			Name:  dispatchName,
			Title: "Have the members of a group do something",
			Description: "Calls one capability of several skills at once: of all members of a group, or of those that target selects. " +
				"Returns the outcome of each member.",
			Schema: dispatchSchema,
			Effect: commands.Act,
			Source: "group",
		},
		Run:     g.run,
		Resolve: g.resolve,
	}
	return g
}

var _ tools.Finder = (*groups)(nil)

// Revision implements [tools.Source].
func (*groups) Revision() string { return "1" }

// Tools implements [tools.Source].
func (g *groups) Tools(ctx context.Context, env tools.Environment) ([]*tools.Tool, error) {
	var list []*tools.Tool
	if g.may(ctx, env.Principal, dispatchAction) == nil {
		list = append(list, g.tool)
	}
	return list, ctx.Err()
}

// Find implements [tools.Finder].
func (g *groups) Find(ctx context.Context, env tools.Environment, name string) (*tools.Tool, bool) {
	return g.tool, name == g.tool.Name && g.may(ctx, env.Principal, dispatchAction) == nil
}

// A selection is the arguments of a model's call.
type selection struct {
	Cap        protocol.CapID        `json:"cap_id"`
	Group      protocol.GroupID      `json:"group_id"`
	Capability protocol.CapabilityID `json:"capability_id"`
	Params     json.RawMessage       `json:"params"`
	Target     target                `json:"target"`
	Completion json.RawMessage       `json:"completion"`
}

// A target selects members: those that fit all fields given.
type target struct {
	Role       string             `json:"role"`
	Skills     []protocol.SkillID `json:"skill_ids"`
	Attributes map[string]string  `json:"attributes"`
	Online     bool               `json:"online_only"`
}

// A groupMember is a member in the result of group.query.
type groupMember struct {
	Skill      protocol.SkillID  `json:"skill_id"`
	Role       string            `json:"role"`
	Attributes map[string]string `json:"attributes"`
	Status     string            `json:"status"`
}

// resolve finds the members that a call selects and their declared risk, and fixes the
// selection to these members: later members of the group were not approved.
func (g *groups) resolve(ctx context.Context, x *tools.Execution) error {
	var s selection
	if err := json.Unmarshal(x.ArgumentsJSON, &s); err != nil {
		return protocol.InvalidParam("arguments", "cannot be read")
	}
	query, err := write(map[string]any{"cap_id": s.Cap, "group_id": s.Group})
	if err != nil {
		return err
	}
	answer, err := g.invoke(ctx, x.Environment, "group.query", query)
	if err != nil {
		return err
	}
	var group struct {
		Members []groupMember `json:"members"`
	}
	if err := json.Unmarshal(answer, &group); err != nil {
		return protocol.Wrap(protocol.Internal, err, "the group cannot be read")
	}
	chosen, err := s.Target.choose(group.Members)
	if err != nil {
		return err
	}
	x.Roster, x.Reaches, x.Risks = nil, nil, nil
	declared := sha256.New()
	for _, skill := range chosen {
		x.Roster = append(x.Roster, string(skill))
		x.Reaches = append(x.Reaches, toolName(skill, s.Capability))
		sum := sha256.Sum256(g.skills.declaredBy(spaceOf(x.Environment), skill, s.Capability))
		_, _ = declared.Write(sum[:])
		if risk := g.skills.riskOf(spaceOf(x.Environment), skill, s.Capability); !slices.Contains(x.Risks, risk) {
			x.Risks = append(x.Risks, risk)
			x.Risk = tools.Stricter(x.Risk, tools.RiskOf(risk))
		}
	}
	x.Reached = declared.Sum(nil)
	return fix(x, chosen)
}

// maxNamed is the number of members that an error names.
const maxNamed = 20

// choose lists the selected members, by name.
func (t *target) choose(members []groupMember) ([]protocol.SkillID, error) {
	var chosen []protocol.SkillID
	known := make(map[protocol.SkillID]bool, len(members))
	for _, m := range members {
		known[m.Skill] = true
		if (t.Role == "" || m.Role == t.Role) && (len(t.Skills) == 0 || slices.Contains(t.Skills, m.Skill)) &&
			has(m.Attributes, t.Attributes) && (!t.Online || m.Status == "online") {
			chosen = append(chosen, m.Skill)
		}
	}
	names := slices.Sorted(maps.Keys(known))
	some := names[:min(len(names), maxNamed)]
	for _, skill := range t.Skills {
		if !known[skill] {
			return nil, protocol.Errorf(protocol.NotFound, "skill %q is not a member of the group; these are: %q", string(skill), some)
		}
	}
	if len(chosen) == 0 {
		return nil, protocol.Errorf(protocol.NotFound, "target means nobody of the group; its members are: %q", some)
	}
	slices.Sort(chosen)
	return chosen, nil
}

// has reports whether attributes contain all wanted ones.
func has(attributes, wanted map[string]string) bool {
	for name, value := range wanted {
		if found, ok := attributes[name]; !ok || found != value {
			return false
		}
	}
	return true
}

// fix has the arguments name the chosen members.
func fix(x *tools.Execution, chosen []protocol.SkillID) error {
	arguments := maps.Clone(x.Arguments)
	names := make([]any, len(chosen))
	for i, skill := range chosen {
		names[i] = string(skill)
	}
	arguments["target"] = map[string]any{"skill_ids": names}
	text, err := write(arguments)
	if err != nil {
		return err
	}
	x.Arguments, x.ArgumentsJSON = arguments, text
	return nil
}

const (
	spare      = 500 * time.Millisecond // of a call's time, kept for gathering the answers
	callingOff = 10 * time.Second       // for cancelling a task, with or without a waiting caller
)

// run dispatches, waits for the task, and returns the outcome of each member.
func (g *groups) run(ctx context.Context, x *tools.Execution) (tools.Output, error) {
	var s selection
	if err := json.Unmarshal(x.ArgumentsJSON, &s); err != nil {
		return tools.Output{}, protocol.InvalidParam("arguments", "cannot be read")
	}
	left := tools.DefaultTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	order := map[string]any{
		"cap_id": s.Cap, "group_id": s.Group, "capability_id": s.Capability,
		"target": map[string]any{"skill_ids": s.Target.Skills}, "deadline_ms": max((left - spare).Milliseconds(), 1),
	}
	if len(s.Params) > 0 {
		order["params"] = s.Params
	}
	if len(s.Completion) > 0 {
		order["completion"] = s.Completion
	}
	params, err := write(order)
	if err != nil {
		return tools.Output{}, err
	}
	begin, cancel := context.WithTimeout(context.WithoutCancel(ctx), left) // a caller that cancels now must still learn the task to cancel
	defer cancel()
	answer, err := g.invoke(begin, x.Environment, "group.dispatch", params)
	if err != nil {
		return tools.Output{}, err
	}
	var begun struct {
		Task protocol.TaskID `json:"task_id"`
	}
	if err := json.Unmarshal(answer, &begun); err != nil {
		return tools.Output{}, protocol.Wrap(protocol.Internal, err, "the dispatch cannot be read")
	}
	tools.TellTask(ctx, begun.Task)
	return g.gather(ctx, x.Environment, begun.Task)
}

// dispatched is a dispatched task in the result of task.get.
type dispatched struct {
	Task  protocol.TaskID `json:"task_id"`
	State string          `json:"state"`
	Group struct {
		Counts  map[string]int `json:"counts"`
		Members []struct {
			Skill   protocol.SkillID `json:"skill_id"`
			Role    string           `json:"role"`
			State   string           `json:"state"`
			Data    json.RawMessage  `json:"data"`
			Dropped bool             `json:"data_dropped"`
			Error   *struct {
				Code    protocol.Code `json:"code"`
				Message string        `json:"message"`
			} `json:"error"`
		} `json:"members"`
	} `json:"group"`
}

// A memberResult is the result of one member for a model.
type memberResult struct {
	Skill protocol.SkillID `json:"skill_id"`
	Role  string           `json:"role,omitempty"`
	State string           `json:"state"`
	Data  json.RawMessage  `json:"data,omitempty"`
	Error string           `json:"error,omitempty"`
}

// gather waits for a dispatch and returns the outcome of each member. When ctx ends
// before, it cancels the dispatch, unless a task has taken over.
func (g *groups) gather(ctx context.Context, env tools.Environment, task protocol.TaskID) (tools.Output, error) {
	named, err := write(map[string]any{"task_id": task})
	if err != nil {
		return tools.Output{}, err
	}
	if err := g.wait(ctx, task); err != nil {
		if errors.Is(context.Cause(ctx), tools.ErrHandedOver) {
			content, err := write(map[string]any{"task_id": task, "state": "running"})
			return tools.Output{Content: content}, err
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), callingOff)
		defer cancel()
		_, _ = g.invoke(last, env, "task.cancel", named) // the task may have ended by now
		return tools.Output{}, err
	}
	answer, err := g.invoke(ctx, env, "task.get", named)
	if err != nil {
		return tools.Output{}, err
	}
	return DispatchOutput(answer)
}

// DispatchOutput is the output for a model of a dispatched task that has ended, made of
// the result of task.get.
func DispatchOutput(task json.RawMessage) (tools.Output, error) {
	var d dispatched
	if err := json.Unmarshal(task, &d); err != nil {
		return tools.Output{}, protocol.Wrap(protocol.Internal, err, "the task cannot be read")
	}
	members := make([]memberResult, len(d.Group.Members))
	for i, m := range d.Group.Members {
		members[i] = memberResult{Skill: m.Skill, Role: m.Role, State: m.State, Data: m.Data}
		switch {
		case m.Error != nil:
			members[i].Error = fmt.Sprintf("%s (code %s)", m.Error.Message, string(m.Error.Code))
		case m.Dropped:
			members[i].Error = "its answer was too long to be kept"
		}
	}
	content, err := write(map[string]any{"task_id": d.Task, "state": d.State, "counts": d.Group.Counts, "members": members})
	return tools.Output{Content: content, IsError: d.State == "failed"}, err
}
