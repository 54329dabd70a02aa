// Package a2a serves a bridge to other agents by the Agent2Agent protocol (A2A),
// version 1.0, in two of its bindings: JSON-RPC, and HTTP with JSON (REST), both
// with server-sent events.
//
// The bridge is one agent with all skills that a caller may use, and every set of
// skills is an agent of its own. A message names a capability, a group or a workflow by
// its data, or is a text for the language model; the outcome is a task. Tasks are those
// of package task: the only state of this package is the current listeners. The rights
// of a principal are checked with every request.
package a2a
