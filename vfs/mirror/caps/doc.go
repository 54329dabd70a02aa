// Package caps mirrors every Cap to the VFS: its configuration, groups and
// links as the files cap.json, group.json and links.json, and all files of its
// folder disk (docs/sync.md).
//
// The three files are made from the bridge's records, after every change of those;
// a copy in the VFS that differs is overruled and kept as a version. The bridge
// writes nothing of its own to the disk.
package caps
