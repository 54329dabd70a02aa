// Package store keeps the bridge's state in NATS JetStream: typed tables with
// an in-memory view, durable claims of commands that act on the world, the
// journal of the MQTT server, backup and restore. It is the only package,
// beside internal/natsd, that knows NATS.
//
// A [Table] answers reads from memory, without locks. A write goes to the registry stream
// first, is durable when it is acknowledged, and returns when the view has it, so that a
// writer reads its own writes. Revisions are sequences of that one stream: they grow over
// all tables together.
//
// Errors that callers are to see are protocol errors: 3001 not found, 3002
// already exists, 3003 revision conflict, 1004 value too large, 5001 store
// unavailable. DESIGN.md gives the reasons and the measured figures.
package store
