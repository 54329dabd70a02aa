// Package protocol is the wire: envelopes of the bridge dialect, identifiers
// and their limits, error codes, topics and the principal behind a message.
//
// It is pure data. It imports nothing of this project, holds no state and
// starts no goroutines, so that every other package may build on it.
package protocol
