// Package ask asks agents to do something, and tells what becomes of it.
//
// A request goes to one peer by the way that is there: over MQTT, over the
// agent's WebSocket connection, or by POST to an endpoint. An exchange stands
// for it until the peer has answered, whatever the way; its end is one outcome,
// and whoever asked hears of it as a [Notice].
//
// There are two ways to ask. [Service.Ask] is for a caller who waits: the
// request ends with the caller's context, and another peer is asked where that
// does no harm. [Service.AskDurably] is for a caller who does not: the request
// stays open while its agent is away, may be sent again under the same id, and
// may be taken up by a later process.
//
// The package knows nobody. Who there is, and how they are reached, it learns
// from a [Directory].
package ask
