// Package drill breaks a cluster of bridges on purpose and holds it to its word.
//
// [Run] starts NATS servers and bridges as processes of their own on a loopback
// address, connects clients that note what they send, what is acknowledged to
// them and what they get, and injects faults by a [Schedule] that a seed
// decides. Whether the promises were kept is found in that [History] alone, by
// [Judge], a pure function: no bridge is asked how it went.
//
// Nothing is asserted by the clock. A round ends when everything that was
// promised has come, or nothing has come for the patience of the drill; how long
// things took is measured and reported.
package drill
