package mirror

import (
	"time"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// A fingerprint is the checksum of a file and how to recognise that the file
// is still the same without reading it.
type fingerprint struct {
	taken bool
	stamp tree.Stamp
	sum   Sum
	read  int64 // when reading began, Unix nanoseconds
}

// The coarseness of the times of files: a change that soon after a reading might not
// show in them.
const (
	coarseChange  = int64(40 * time.Millisecond) // time of change, kept by the kernel's clock
	coarseModTime = int64(2 * time.Second)       // where there is only the other one
)

// covers reports whether a file with the stamp surely has the checksum. The
// time of change cannot be set back, unlike the other one; and a file that
// changed about when it was read is read once more.
func (p *fingerprint) covers(s tree.Stamp) bool {
	if !p.taken || p.stamp != s {
		return false
	}
	if s.Change != 0 {
		return s.Change < p.read-coarseChange
	}
	return s.ModTime < p.read-coarseModTime
}
