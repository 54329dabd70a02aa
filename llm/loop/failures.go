package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Failures count the failures in a row of identical calls. The zero value is ready to
// use.
type Failures struct {
	counts map[[sha256.Size]byte]int
}

// See counts a finished call. It returns the number of failures of the same tool with
// the same arguments since their last success.
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

// MarshalJSON implements [json.Marshaler].
func (f Failures) MarshalJSON() ([]byte, error) {
	list := make(map[string]int, len(f.counts))
	for key, n := range f.counts {
		list[hex.EncodeToString(key[:])] = n
	}
	return json.Marshal(list)
}

// UnmarshalJSON implements [json.Unmarshaler]. Unreadable failures are ignored: each
// costs one warning.
func (f *Failures) UnmarshalJSON(text []byte) error {
	var list map[string]int
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	f.counts = make(map[[sha256.Size]byte]int, len(list))
	for text, n := range list {
		if key, err := hex.DecodeString(text); err == nil && len(key) == sha256.Size {
			f.counts[[sha256.Size]byte(key)] = n
		}
	}
	return nil
}

// IsZero reports whether nothing has failed.
func (f Failures) IsZero() bool { return len(f.counts) == 0 }
