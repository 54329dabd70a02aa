// Package mirror keeps a folder and a place in a VFS the same, in both
// directions, over connections that come and go.
//
// What both ends agreed on last is kept for every path, and compared with
// what is there now: one side changed is a transfer, both sides changed is a
// conflict, which a [Rule] decides; the copy that loses is kept. Only a
// tombstone is a deletion. What a VFS merely does not have any more it has
// lost, and gets again.
//
// The VFS comes first. While it cannot be reached, reads and writes go on in
// the folder, and are caught up on in order once it is back ([Link]). Nothing
// is ever given up; what fails is tried again, later and later.
//
// DESIGN.md says why it is built this way.
package mirror
