// Package relay carries publications between the bridges of a cluster, and with
// them what their clients subscribe to.
//
// To every other bridge there is one stream of records, counted in bytes from
// the start of the process that sends it. It is cut into frames, which a
// [Transport] may lose, double or reorder: what is not received is sent again.
// A record is kept by its sender until its receiver has accepted it: delivered
// it to clients, and stored it where a session that is kept is owed it. How far
// that is, the offset in the stream, is stored with what it covers, so that a
// receiver that was killed takes nothing twice.
//
// DESIGN.md has the frames and the states.
package relay
