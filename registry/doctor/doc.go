// Package doctor finds out why a device does not work: agent.doctor looks at an agent
// from its credential to its last answers, and says in words what is wrong, the most
// likely cause first, and what to do about it.
//
// It asks the sources of the present state, see [Options], and remembers faults in
// a [Casebook]: connections that were refused, topics that were not allowed,
// answers that were dropped. The memory is bounded, for each party, each space and
// in all, and lost with the process. A connected device is told its mistakes at
// once, on aibridge/agent/{agent_id}/event.
package doctor
