// Package evidence stores the evidence of a bridge in one segmented log on the local
// disk: the claims of commands that act on the world, and the entries of the audit
// trail. DESIGN.md has the design and its reasons.
//
// # Durability
//
// [Log.Claim] and [Log.Keep] return when the operating system has the claim, or the
// entries added before, so that they survive any end of the process. With
// [Options.SyncAlways] they return when the disk has them, so that they survive a power
// failure, too (docs/protocol.md#what-lasts).
//
// # Clocks
//
// A running log measures the lifetime of segments by the monotonic clock, and writes
// its age into every group, so that a change of the wall clock neither loses claims nor
// keeps them forever. Only the time between two processes is measured by the wall
// clock, and even then no claim is kept longer than [Options.Life].
package evidence
