// Package a2a makes agents of the bridge out of agents elsewhere that speak the
// Agent2Agent protocol (A2A), version 1.0: each becomes an agent with one skill,
// which has a capability for every skill of its card and one for plain messages.
//
// An agent is used once an operator has approved its card. The approval is of the
// card's digest: a changed card waits for approval again, and until then the agent
// cannot be called. Its words are a stranger's text everywhere: bounded, made one
// line where a line is wanted, and never taken as the bridge's.
//
// To its callers it is an agent like any other: requests come by a [commands.Line]
// that ends in this process, so that schemas, deadlines, claims, policy, approvals and
// the audit trail are those of every other skill. In a cluster one bridge keeps the
// lines. The records of the agents are all that is stored.
package a2a
