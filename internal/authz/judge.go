package authz

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/aibridge/aibridge/cap"
	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/policy"
)

// A Judge decides by policy for the domains that have none.
type Judge struct {
	Policies   *policy.Engine
	Authorizer security.Authorizer
}

var (
	_ approval.Policy   = Judge{}
	_ approval.Versions = Judge{}
	_ tools.Law         = Judge{}
)

// MayRun implements [approval.Policy].
func (j Judge) MayRun(_ context.Context, x *tools.Execution) bool {
	return j.decide(policy.RunTool, &x.Environment, x.Name).Allowed
}

// Unattended implements [approval.Policy].
func (j Judge) Unattended(_ context.Context, x *tools.Execution) bool {
	return j.decide(policy.Unattended, &x.Environment, x.Name).Allowed
}

// Version implements [approval.Versions].
func (j Judge) Version() string { return j.Policies.Version() }

// Asking implements [approval.Versions].
func (j Judge) Asking(_ context.Context, x *tools.Execution) string {
	sum := sha256.New()
	asks := false
	for _, name := range append([]string{x.Name}, x.Reaches...) {
		if j.decide(policy.Unattended, &x.Environment, name).Allowed {
			continue
		}
		asks = true
		for _, p := range j.Policies.Explain(question(policy.Unattended, &x.Environment, name)).Policies {
			fmt.Fprintf(sum, "%q %q %q\n", name, p.ID, p.Text)
		}
	}
	if !asks {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// question asks policies about a tool.
func question(action string, env *tools.Environment, tool string) *policy.Query {
	return &policy.Query{Who: env.Principal, Action: action, Type: "tool", ID: tool, Space: env.Space}
}

func (j Judge) decide(action string, env *tools.Environment, tool string) policy.Decision {
	return j.Policies.Decide(question(action, env, tool))
}

// Forbids implements [tools.Law]. A call that policy forbids at some times only is
// judged when it is made.
func (j Judge) Forbids(env tools.Environment, t *tools.Tool) bool {
	d := j.decide(policy.RunTool, &env, t.Name)
	return !d.Allowed && !d.Passing
}

// Standing implements [tools.Law].
func (j Judge) Standing(env tools.Environment) any {
	return toolStanding{j.Policies.Standing(env.Principal), env.Space}
}

type toolStanding struct {
	policy.Standing
	space protocol.SpaceID
}

// Revision implements [tools.Law].
func (j Judge) Revision() string { return strconv.FormatUint(j.Policies.Revision(), 10) }

// MayDecide reports whether a principal may decide on an approval of a space, ""
// for any.
func (j Judge) MayDecide(who *protocol.Principal, space protocol.SpaceID, id string) bool {
	return (space == who.Home() || who.Unbounded()) &&
		j.Policies.Decide(&policy.Query{Who: who, Action: "approval:decide", Type: "approval", Space: space, ID: id}).Allowed
}

// MayDecideOwn reports whether a principal may decide on approvals of its own calls.
func (j Judge) MayDecideOwn(who *protocol.Principal) bool {
	return j.Policies.Decide(&policy.Query{Who: who, Action: policy.DecideOwn, Type: "approval", Space: who.Space}).Allowed
}

// MayDecideEdited reports whether a principal may decide on an approval of a call
// that it has changed.
func (j Judge) MayDecideEdited(who *protocol.Principal) bool {
	return j.Policies.Decide(&policy.Query{Who: who, Action: policy.DecideEdited, Type: "approval", Space: who.Space}).Allowed
}

// MayInvoke fails if a principal may not invoke a skill.
func (j Judge) MayInvoke(ctx context.Context, who *protocol.Principal, space protocol.SpaceID, skill protocol.SkillID) error {
	return j.Authorizer.Authorize(ctx, who, "skill:invoke", commands.Resource{Type: "skill", ID: string(skill), Space: space})
}

// MayRunCommands fails if a principal may not run commands of an action.
func (j Judge) MayRunCommands(ctx context.Context, who *protocol.Principal, action string) error {
	return j.Authorizer.Authorize(ctx, who, action, commands.Resource{Space: who.Home()})
}

// MayUseServer fails if a principal may not do an action on an MCP server.
func (j Judge) MayUseServer(ctx context.Context, who *protocol.Principal, action string, on commands.Resource) error {
	on.Space = who.Home()
	return j.Authorizer.Authorize(ctx, who, action, on)
}

// MayAskFor fails if a caller may not act on behalf of a skill other than itself.
func (j Judge) MayAskFor(ctx context.Context, call *commands.Call, skill string) error {
	if j.Authorizer.ActFor(ctx, call.Principal, skill) == nil {
		return nil
	}
	return protocol.Errorf(protocol.PermissionDenied, "skill_id is not yours").
		With("param_name", "skill_id").
		With("reason", "must be the authenticated identity, or a skill that it registered or provides")
}

// Dispatches judges whether a dispatch may go on.
type Dispatches struct {
	Grants     grant.Authority
	Authorizer security.Authorizer
	Caps       func() *cap.Service
	Denied     func(d *dispatch.Dispatch, skill protocol.SkillID, why error) // called after a refusal
}

// MayAsk fails if the caller of a dispatch may not have a member asked any more. It
// is decided as for a new call: by the caller's credential, policy, and its part in
// the group.
func (j Dispatches) MayAsk(d *dispatch.Dispatch, skill protocol.SkillID) error {
	err := j.judge(d, skill)
	if err != nil {
		j.Denied(d, skill, err)
	}
	return err
}

func (j Dispatches) judge(d *dispatch.Dispatch, skill protocol.SkillID) error {
	who, err := j.Grants.Principal(d.Caller.Grant)
	if err != nil {
		return protocol.Errorf(protocol.PermissionDenied, "the credential that the dispatch was started with is no longer valid: %s", protocol.AsError(err).Message).With("reason", "credential")
	}
	if err := j.Caps().MayStillDispatch(who, d); err != nil {
		return err
	}
	call := &commands.Call{Principal: who, Command: "group.dispatch", SenderID: d.Caller.Sender, TraceID: d.TraceID, Door: d.Caller.Door, Address: d.Caller.Address}
	group := commands.Resource{Type: "group", ID: string(d.Cap) + "/" + string(d.Group)}
	if err := j.Authorizer.AuthorizeCall(call, "group:dispatch", group); err != nil {
		return err
	}
	return j.Authorizer.AuthorizeCall(call, "skill:invoke", commands.Resource{Type: "skill", ID: string(skill), Space: d.Space})
}
