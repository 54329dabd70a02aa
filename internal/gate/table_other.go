//go:build !linux

package gate

// Opened does nothing: where there are no shared readers, nobody waits for whoever opens
// a descriptor.
func Opened(int) {}

// Reserve does nothing.
func Reserve(int) error { return nil }
