// Package journal keeps what a mirror knows in a file that is only appended
// to, and now and then written anew.
//
// Every record carries its length and a checksum. Reading stops at the first
// record that is not whole, and what follows is cut off: after a crash that is
// the record being written. A mirror finds out again what its journal loses
// by looking at both ends, so less is always safe.
package journal
