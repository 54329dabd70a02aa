package loop

import "crypto/sha256"

// Failures count how often the same calls have failed in a row. The zero value
// is ready.
type Failures struct {
	counts map[[sha256.Size]byte]int
}

// See takes the end of a call. It returns how often the same tool has failed
// with the same arguments since it last succeeded with them.
func (f *Failures) See(tool string, arguments []byte, failed bool) int {
	key := sha256.Sum256(append([]byte(tool+"\x00"), arguments...))
	if !failed {
		delete(f.counts, key)
		return 0
	}
	if f.counts == nil {
		f.counts = make(map[[sha256.Size]byte]int)
	}
	f.counts[key]++
	return f.counts[key]
}
