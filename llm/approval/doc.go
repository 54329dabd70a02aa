// Package approval decides whether a model's call of a tool may run, must wait for an
// approval, or must not run: by the declared risk of the capability and by policy,
// enforced by the bridge instead of the model.
//
// A call that needs an approval waits in [Service.Gate], or is parked. Meanwhile the
// approval is stored, published to deciders by event, webhook and e-mail, and decided
// by approval.decide. The lack of a decision, a fault and the end of the call deny it.
// An approval holds for one execution of exactly the call shown: the declaration of the
// tool, its arguments, and for a group its members. See docs/approvals.md.
package approval
