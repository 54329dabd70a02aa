// Package relay carries publications and the subscriptions of clients between the
// bridges of a cluster.
//
// To every other bridge there are two streams of records, counted in bytes: one of
// messages, and one of everything else, which overtakes messages that wait. They are cut
// into frames, which a [Transport] may lose, duplicate or reorder: bytes that are not
// received are sent again. A record is kept by its sender until its receiver has accepted
// it; a message, until it is delivered to clients, and stored for kept sessions. The
// accepted offset of messages is stored together with those it covers, so that a receiver
// that was killed accepts nothing twice.
//
// DESIGN.md has the frames and the states.
package relay
