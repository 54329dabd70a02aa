// Package registry knows the agents, skills and resources of a bridge, and which of
// them are online right now.
//
// Registrations are durable: they live in tables the store provides. Presence
// is not: it lives in memory and is rebuilt from connections, subscriptions and
// heartbeats (docs/protocol.md#presence). Every agent has a retained card that
// shows both.
//
// A call of a skill goes to one of its agents, or to an endpoint of the skill
// itself (docs/protocol.md#an-agents-side-of-a-call). Package ask sends it and
// takes the answer; the registry is its directory of agents. DESIGN.md gives the
// reasons for the handling of failures.
//
// Everything is kept per space. Things outside the caller's space do not exist for it
// (docs/protocol.md#spaces).
package registry
