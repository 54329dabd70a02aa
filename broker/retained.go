package broker

import (
	"iter"

	"github.com/aibridge/aibridge/protocol"
)

// Retained yields the topics, covered by a filter, that a message is retained
// on, each with the space it stays in,
// "" for what administrators alone are told. It holds no lock while yielding.
func (b *Broker) Retained(filter string) iter.Seq2[string, protocol.SpaceID] {
	found := b.retained.covered(filter, b.clock.Steady())
	return func(yield func(string, protocol.SpaceID) bool) {
		for _, m := range found {
			if !yield(m.topic, m.to.space) {
				return
			}
		}
	}
}
