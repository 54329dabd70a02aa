// Package relay carries publications and the subscriptions of clients between the
// bridges of a cluster.
//
// To every other bridge there is one stream of records, counted in bytes from the start
// of the process that sends it. It is cut into frames, which a [Transport] may lose,
// duplicate or reorder: bytes that are not received are sent again. A record is kept by
// its sender until its receiver has accepted it: delivered it to clients, and stored it
// for kept sessions. The accepted offset in the stream is stored together with the
// messages it covers, so that a receiver that was killed accepts nothing twice.
//
// DESIGN.md has the frames and the states.
package relay
