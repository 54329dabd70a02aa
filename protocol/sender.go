package protocol

import (
	"crypto/sha256"
	"encoding/hex"
)

// FitSender is a text that names a sender, in at most 64 characters: of a longer one
// the beginning, and after a tilde a hash of the whole.
func FitSender(text string) string {
	runes := []rune(text)
	if len(runes) <= MaxSenderLength {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	mark := "~" + hex.EncodeToString(sum[:8])
	return string(runes[:MaxSenderLength-len(mark)]) + mark
}
