package protocol

// run is the number of bytes at the start of a text that stand in a JSON string as they
// are, up to the first byte at most that has a bit of the mask.
func run(text []byte, mask uint64) int {
	if len(text) < wideStep {
		return narrow(text, mask)
	}
	// Signed, a byte that is not ASCII is below all others; its sign is turned where it may stand.
	signs := tops &^ mask
	return wide(&text[0], len(text), quoteFlip^signs, flippedLeast^signs)
}

// wideStep is the number of bytes that wide looks at together, and the least that it is
// given.
const wideStep = 16

// wide is the place of the first byte of a text that is a backslash or, with the bits of
// flip turned, below another as a signed number; the size if there is none.
//
//go:noescape
func wide(text *byte, size int, flip, below uint64) int
