package broker

import (
	"iter"
	"time"
)

// Retained yields the topics, covered by a filter, that a message is retained
// on. It holds no lock while yielding.
func (b *Broker) Retained(filter string) iter.Seq[string] {
	found := b.retained.covered(filter, time.Now().UnixNano())
	return func(yield func(string) bool) {
		for _, m := range found {
			if !yield(m.topic) {
				return
			}
		}
	}
}
