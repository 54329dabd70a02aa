// Package journal keeps the state of a mirror in a file that is only appended to,
// and now and then written anew.
//
// Every record carries its length and a checksum. Reading stops at the first
// record that is not whole, and the rest is cut off: after a crash that is the
// record being written. A mirror recovers lost records by scanning both ends, so a
// shorter journal is always safe.
package journal
