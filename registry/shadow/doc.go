// Package shadow keeps the desired and the reported state of agents: for each skill
// of an agent a document of its desired state, which people and programs set, and
// one of its actual state, which the agent alone reports. Their difference is the
// delta, which the agent works on, now or when it is back (docs/state.md).
//
// Both documents are JSON objects that are changed by merge patches (RFC 7386).
// Each is a record of its own, with its own version, so that reports and wishes
// never conflict. Documents are bounded in size, depth and number; so is the
// history of their changes.
package shadow
