// Package tree is the local end of a mirror: a folder of plain files that is
// read and changed without ever leaving it.
//
// Everything goes through an [os.Root], and no link is followed, not even one
// that stays inside. Only regular files exist for a mirror.
// Files are written beside their place, synced and moved there in one step,
// and are never executable: the right to write files must not become the right to
// run programs.
//
// The folder [Private] inside the tree belongs to the mirror itself.
package tree
