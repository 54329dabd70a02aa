// Package session lets operators see and end the MQTT sessions of the broker:
// session.list, session.get, session.kick.
//
// A session belongs to the space of the principal that opened it. A session
// that is not in the caller's space does not exist for it
// (docs/protocol.md#spaces).
package session
