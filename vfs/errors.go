package vfs

import "github.com/aibridge/aibridge/protocol"

// The errors of [Files], for its implementations.

// NoFile is the 4003 for a path.
func NoFile(group, path string) error {
	return protocol.Errorf(protocol.FileNotFound, "group %q has no file %q", group, path).
		With("group_name", group).With("path", path)
}

// NoVersion is the 4003 for a version of a file.
func NoVersion(path string, version uint64) error {
	return protocol.Errorf(protocol.FileNotFound, "version %d of file %q is not kept", version, path).
		With("path", path).With("version", version)
}

// VersionConflict is the 3003 for a file whose version is not the one expected; 0
// stands for no file.
func VersionConflict(path string, expected, found uint64) error {
	return protocol.Errorf(protocol.RevisionConflict, "file %q has version %d, not %d", path, found, expected).
		With("path", path).With("expected", expected).With("version", found)
}

// Obstructed is the 3002 for a path that another one is in the way of.
func Obstructed(path, twin string) error { return errCollision(path, twin) }

// BadContent is the 4002 for content that differs from the announced one.
func BadContent(path, reason string) error {
	return protocol.Errorf(protocol.SyncFailed, "the content of %q %s", path, reason).
		With("path", path).With("reason", reason)
}

// NoRoom is the 4005 for content there is no room for.
func NoRoom(reason string) error {
	return protocol.Errorf(protocol.NoSpace, "no space left: %s", reason).With("reason", reason)
}
