// Package a2a serves a bridge to other agents by the Agent2Agent protocol (A2A),
// version 1.0, in two of its bindings: JSON-RPC, and HTTP with JSON (REST), both
// with server-sent events.
//
// The bridge is one agent with all that a caller may use, and every set of skills is
// an agent of its own. A message names a capability, a group or a workflow by its
// data, or is a text for the language model; what comes of it is a task. Tasks are
// those of package task: there is no state here but who listens right now. What
// somebody may see and do is looked up when they ask, as the principal who asks.
package a2a
