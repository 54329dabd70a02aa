// Package evidence keeps what a bridge must be able to prove in one segmented
// log on the local disk: the claims of commands that act on the world, and the
// entries of the audit trail. DESIGN.md says how and why.
//
// # Durability
//
// [Log.Claim] and [Log.Keep] return when the claim, or the entries that were
// added before, are with the operating system, where they survive the end of
// the process, however that comes. With [Options.SyncAlways] they return when
// they are on disk and survive a power cut, too (docs/protocol.md#what-lasts).
//
// # Clocks
//
// A running log measures by the monotonic clock how long a segment is needed,
// and writes its age into every group, so that setting the wall clock neither
// loses claims nor keeps them forever. Only for the time between two processes
// the wall clock has to be trusted, and even then no claim is kept longer than
// [Options.Life].
package evidence
