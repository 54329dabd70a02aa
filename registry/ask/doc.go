// Package ask sends requests to agents, and reports their outcomes.
//
// A request goes to one peer by the available way: over MQTT, over the agent's
// WebSocket connection, or by POST to an endpoint. An exchange represents it until the
// peer has answered; its end is one outcome, and the listener of the request gets it as
// a [Notice].
//
// There are two ways to ask. [Service.Ask] is for a waiting caller: the request ends
// with the caller's context, and another peer is asked after a failure where that does
// no harm. [Service.AskDurably] is for a caller that does not wait: the request stays
// open while its agent is offline, may be sent again under the same id, and may be
// resumed by a later process.
//
// The package depends on a [Directory] for the agents and the ways to reach them.
package ask
