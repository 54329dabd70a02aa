// Package approval decides whether a tool that a model calls may run, has to
// wait until somebody agrees, or must not run: by the risk that the capability
// declares and by policy, enforced by the bridge and not by the model.
//
// A call that needs an approval waits in [Service.Gate]. Meanwhile the approval
// is stored, told to approvers by event and webhook, and decided by
// approval.decide. Silence, a fault and the end of the call deny it. An
// approval is for one execution of exactly the call shown: the tool as it is
// declared, its arguments, and for a group its members. See docs/approvals.md.
package approval
