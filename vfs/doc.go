// Package vfs keeps the files of groups: the Skill-VFS of the protocol
// (docs/vfs.md). A group of files is a name of its own within a space; a file
// has a path in its group, an id it keeps for life, and a version that rises
// with every change.
//
// [Files] is the interface of a VFS to its users: of the bridge's own [Store] and
// of a foreign VFS (package remote). Any implementation passes the tests of package
// vfstest.
package vfs
