// Package caps mirrors every Cap to the VFS: its configuration, groups and
// links as the files cap.json, group.json and links.json, and whatever is in
// its folder disk (docs/sync.md).
//
// The three files are made from what the bridge knows, whenever that changes;
// a copy that differs in the VFS is overruled and kept as a version. The disk
// belongs to whoever writes there.
package caps
