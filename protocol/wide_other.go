//go:build !amd64

package protocol

// run is the number of bytes at the start of a text that stand in a JSON string as they
// are, up to the first byte at most that has a bit of the mask.
func run(text []byte, mask uint64) int { return narrow(text, mask) }
