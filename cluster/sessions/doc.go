// Package sessions assigns each MQTT session to one bridge of a cluster, its owner.
//
// The owner of a session that outlives its connection is decided by a log, which all
// bridges follow into a [Table]: a record takes effect if the table has the owner that
// it expects. The living bridge that has a client id, whether its session is kept or
// not, is known to the home of the id: the bridge chosen by hashing.
//
// A client that connects to another bridge takes its session along. The rules are
// implemented by one type without clock and network, see machine.go. DESIGN.md of
// package cluster has the states, and the effects of a crash in each.
package sessions
