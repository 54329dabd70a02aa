// Package sessions has one bridge of a cluster own each MQTT session.
//
// Who owns a session that outlives its connection is decided by a log, which all
// bridges follow into a [Table]: a record of it counts if the table says what the
// record expects. Which living bridge has a client id, whether its session is kept
// or not, is known to the id's home: the bridge that hashing chooses for it.
//
// A client that connects to another bridge takes its session along. The rules of
// that are one type without clock and network, see machine.go. DESIGN.md of
// package cluster has the states, and what each crash leaves.
package sessions
