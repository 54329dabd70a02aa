// Package link joins the bridge to other MQTT brokers, so that devices there and
// devices here can talk.
//
// # Two sessions and no store
//
// A link is a client of both brokers at once: of the bridge's own, as the principal
// that it acts for, and of the remote one. It owns no messages. A packet that comes
// from one side goes to the other under the packet identifier that it came with, and
// so does its acknowledgement:
//
//	the bridge ── PUBLISH 7 ──▶ link ── PUBLISH 7 ──▶ remote
//	the bridge ◀── PUBACK 7 ─── link ◀── PUBACK 7 ─── remote
//
// So a message is the bridge's until the remote broker has acknowledged it, and the
// other way round. Messages for a remote broker that is away wait in the link's
// session on the bridge, in its journal, bounded like any session; messages under
// way when either side or the line broke are sent again under their identifiers, in
// order, and a QoS 2 message is delivered once although both programs were killed
// (docs/decisions/0039-a-link-joins-two-sessions.md).
package link
