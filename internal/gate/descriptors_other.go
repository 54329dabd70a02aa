//go:build !unix

package gate

// Descriptors is the number of descriptors that the process may have.
func Descriptors() int { return unlimited }
