// Package claimlog keeps the claims of commands that act on the world in files
// of its own, for a bridge that has its state embedded. A claim is written
// before its command is dispatched, so it is the one thing on the way of every
// such command that has to reach a file: docs/decisions/0004 says what it
// costs here and what it cost elsewhere.
//
// # Durability
//
// [Log.Claim] returns when the claim is with the operating system, where it
// survives the end of the process, however that comes. With
// [Options.SyncAlways] it returns when the claim is on disk and survives a
// power cut, too (docs/protocol.md#what-lasts).
//
// # Writing
//
// There is no goroutine that writes. A caller that finds nobody writing writes
// its claim itself. Those who come meanwhile gather in a batch, and when the
// writer is done one of them writes it for all. So one caller alone pays for
// a system call and nothing else, and a thousand pay for one together.
//
// # Files
//
// A segment is a file NUMBER.claims, records one after another and, once
// nothing more is written to it and it was synced, a seal. When all claims in
// a segment have expired it is deleted. A record is, numbers little-endian:
//
//	4 bytes   CRC-32C of all that follows
//	4 bytes   length of all that follows this field
//	1 byte    version, 1
//	8 bytes   expiry, Unix milliseconds
//	32 bytes  hash
//	2 bytes   length of the principal
//	          the principal
//	          the request id, up to the end
//
// Two things tell a torn end from damage. A segment with a seal was whole on
// disk, so a record in it that cannot be read was damaged since. A segment
// without one was being written when the process or the power went: what was not
// acknowledged may be there in part, at the end, and is cut off. But a record
// behind one that cannot be read, or one of its full length with other content,
// is no unfinished write. [Open] fails for damage, changes nothing and names it.
//
// # Clocks
//
// A running log measures by the monotonic clock how long a segment is needed,
// so that setting the wall clock neither loses claims nor keeps them forever.
// Only across a restart the wall clock has to be trusted, and even then no
// claim is kept longer than [Options.Life].
package claimlog
