// Package drill injects faults into a cluster of bridges and checks its promises.
//
// [Run] starts NATS servers and bridges as processes of their own on a loopback
// address, connects clients that record their messages, acknowledgements and
// deliveries, and injects faults by a [Schedule] that a seed decides. The judgement on
// the promises depends on that [History] alone, by [Judge], a pure function, and on no
// answer of a bridge.
//
// Nothing is asserted by the clock. A round ends when every promise is kept, or when
// nothing has arrived for the patience of the drill; the times are measured and
// reported.
package drill
