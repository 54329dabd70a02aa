package estate

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/aibridge/aibridge/cluster"
)

// A Record names the process that holds the journal of a bridge. Its key is the
// bridge's id.
type Record struct {
	Holder cluster.Node `json:"holder"` // zero while no process holds it
	// Run is the epoch of the bridge or, while another one serves its sessions, a
	// number above all that were in use for it, so that no number is used twice. A
	// bridge that returns has a higher one: epochs are times in milliseconds.
	Run uint64 `json:"run"`
	// Vacant reports that there are no sessions in the journal: it needs no holder.
	Vacant bool `json:"vacant,omitempty"`
}

// adopted reports whether another bridge has the journal of a bridge.
func (r *Record) adopted(bridge string) bool { return r.Holder.ID != "" && r.Holder.ID != bridge }

// Adopter is the bridge among candidates that takes the estate of one, by
// rendezvous hashing: "" if there are no candidates.
func Adopter(bridge string, candidates []string) (adopter string) {
	var most uint64
	for _, id := range candidates {
		sum := sha256.Sum256([]byte(bridge + "\x00" + id))
		if weight := binary.BigEndian.Uint64(sum[:]); adopter == "" || weight > most {
			adopter, most = id, weight
		}
	}
	return adopter
}
