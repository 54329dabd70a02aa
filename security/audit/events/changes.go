package events

import (
	"context"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/cap/dispatch"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
	"github.com/aibridge/aibridge/security/policy"
)

// Policies records changes of policies.
func Policies(trail audit.Recorder) func(policy.Event) {
	return func(e policy.Event) {
		entry := audit.Entry{
			Event: e.Name, Code: audit.OK, Security: true, Reason: e.Reason, Resource: "policy/" + e.Policy,
			Details: map[string]string{"from": string(e.From)},
		}
		if e.Name == "policy.broken" {
			entry.Code = string(protocol.InvalidParameter)
		}
		trail.Record(context.Background(), entry)
	}
}

// Models records that the language models are configured anew, or why not.
func Models(trail audit.Recorder) func(model.Configured) {
	return func(c model.Configured) {
		entry := audit.Entry{Event: "llm.configured", Code: audit.OK, Security: true, Resource: "llm/" + strconv.FormatUint(c.Revision, 10)}
		if c.Err != nil {
			entry.Event, entry.Code, entry.Reason, entry.Resource = "llm.refused", string(protocol.InvalidParameter), "the file is wrong; the log says why", ""
		}
		trail.Record(context.Background(), entry)
	}
}

// Budgets records that budgets for language models are used up to a degree. It is
// published to administrators.
func Budgets(trail audit.Recorder) func(model.BudgetAlert) {
	return func(a model.BudgetAlert) {
		trail.Record(context.Background(), audit.Entry{
			Event: "llm.budget", Code: audit.OK, Security: true, Space: a.Space, Resource: "budget/" + a.Per + "/" + a.Owner,
			Reason:  strconv.Itoa(a.Percent) + " percent of the budget of the " + a.Window + " are used up",
			Details: map[string]string{"percent": strconv.Itoa(a.Percent), "window": a.Window, "resets_at": time.UnixMilli(a.ResetsAt).UTC().Format(time.RFC3339)},
		})
	}
}

// Approvals records changes of approvals.
func Approvals(trail audit.Recorder) func(approval.Event) {
	return func(e approval.Event) {
		entry := audit.Entry{
			Event: e.Name, Code: audit.OK, Security: e.Name == "approval.requested", Resource: "tool/" + e.Tool,
			Space: e.Space, ActsFor: e.Requester, Reason: e.Why, TraceID: e.TraceID,
			Details: map[string]string{"approval_id": e.ID, "hash": e.Hash},
		}
		if e.By == nil {
			entry.Principal, entry.Kind = e.Requester, e.Kind
		}
		if e.Reason != "" {
			entry.Reason = e.Reason
		}
		if e.DecidedBy != "" {
			entry.Details["decided_by"] = e.DecidedBy
		}
		switch e.State {
		case approval.Denied, approval.Expired, approval.Withdrawn:
			entry.Code = string(protocol.PermissionDenied)
		case approval.Pending, approval.Approved, approval.Used:
		}
		trail.Record(context.Background(), entry.By(e.By))
	}
}

// DispatchDenied records that a member of a group is not asked any more, and
// why.
func DispatchDenied(trail audit.Recorder, d *dispatch.Dispatch, skill protocol.SkillID, why error) {
	trail.Record(context.Background(), audit.Entry{
		Time: time.Now(), Event: "group.dispatch.denied", Code: string(protocol.CodeOf(why)), Reason: why.Error(), Security: true,
		Action: "skill:invoke", Resource: "skill/" + string(skill), TraceID: d.TraceID,
		Details: map[string]string{"task_id": string(d.ID), "cap_id": string(d.Cap), "group_id": string(d.Group)},
	}.ByGrant(d.Caller.Grant))
}
