// Package shadow keeps the desired and the reported state of agents: for each
// skill of an agent a document of what it shall be, which people and programs
// set, and one of what it is, which the agent alone says. What they differ in is
// the delta, which the agent works on, now or when it is back
// (docs/state.md).
//
// Both documents are JSON objects that are changed by merge patches (RFC 7386).
// Each is a record of its own, with its own version, so that an agent that
// reports and a person who wishes never stand in each other's way. Documents are
// bounded in size, depth and number; so is the history of their changes.
package shadow
