// Package commands says how a command of the protocol is declared, checked,
// authorized and run. A domain declares a command once, with [New]; from that
// declaration come strict decoding, validation, JSON Schema, documentation
// and the command-line help. The [Router] is the one way in for every front
// door.
package commands
