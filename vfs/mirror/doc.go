// Package mirror keeps a folder and a place in a VFS the same, in both
// directions, over connections that come and go.
//
// The last state that both ends agreed on is kept for every path, and compared with
// what is there now: one side changed is a transfer, both sides changed is a
// conflict, which a [Rule] decides; the copy that loses is kept. Only a
// tombstone is a deletion. A file that is missing in the VFS without one was lost
// there, and is sent again.
//
// A change is written down before it is made, with its checksum: the
// engine recognises its own change when the answer to it was lost, and does not
// take it for another writer's. Versions could name their origin instead. But that
// would have to be added to every VFS there is, would not survive a copied folder,
// and would say nothing about changes of the folder that a crash leaves unnoted; a
// note at this end does all three.
//
// The VFS comes first. While it cannot be reached, reads and writes go on in
// the folder, and are caught up on in order once it is back ([Breaker]). Nothing is
// ever given up; a failed transfer is tried again after ever longer pauses.
//
// DESIGN.md says why it is built this way.
package mirror
