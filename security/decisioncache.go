package security

import (
	"sync/atomic"

	"github.com/aibridge/aibridge/protocol"
)

// A DecisionCache remembers the last rulings about a client's publishes. Devices use
// few topics: the same ones are not judged again while nothing changes. It is
// safe for use by several goroutines. The zero value remembers nothing yet.
type DecisionCache struct {
	slots [decisionSlots]atomic.Pointer[decision]
}

const decisionSlots = 8 // a power of two

type decision struct {
	who    *protocol.Principal
	topic  string
	retain bool
	epoch  uint64
	ruling Ruling
}

// MayPublishFrom is [TopicRights.MayPublish] for a client with a memory. The
// topic must last.
func (r *TopicRights) MayPublishFrom(m *DecisionCache, who *protocol.Principal, topic string, retain bool) Ruling {
	epoch := r.Policies.Epoch()
	slot := &m.slots[slotOf(topic)]
	if known := slot.Load(); known != nil && known.epoch == epoch && known.who == who && known.retain == retain && known.topic == topic {
		return known.ruling
	}
	ruling, passing := r.judgePublish(who, topic, retain)
	if !passing {
		slot.Store(&decision{who: who, topic: topic, retain: retain, epoch: epoch, ruling: ruling})
	}
	return ruling
}

// slotOf spreads topics by their length and last letters, which differ most.
func slotOf(topic string) int {
	h := uint(len(topic))
	for i := max(0, len(topic)-4); i < len(topic); i++ {
		h = h*31 + uint(topic[i])
	}
	return int(h % decisionSlots)
}
