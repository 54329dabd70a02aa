package announce

import (
	"iter"

	"github.com/aibridge/aibridge/protocol"
)

// Leftovers are the retained messages of things that are gone: a process that
// died after it removed one did not come to withdraw its message. Both
// sequences yield topics with the space they are in.
func Leftovers(retained, known iter.Seq2[string, protocol.SpaceID]) iter.Seq2[string, protocol.SpaceID] {
	type location struct {
		topic string
		space protocol.SpaceID
	}
	return func(yield func(string, protocol.SpaceID) bool) {
		var old []location // first, since things declared meanwhile are announced after this
		for topic, space := range retained {
			old = append(old, location{topic, space})
		}
		live := make(map[location]bool, len(old))
		for topic, space := range known {
			live[location{topic, space}] = true
		}
		for _, at := range old {
			if !live[at] && !yield(at.topic, at.space) {
				return
			}
		}
	}
}
