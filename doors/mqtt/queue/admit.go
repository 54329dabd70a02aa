package queue

import (
	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/fair"
)

// admit refuses messages for which there is no room, before anybody hears of them.
func (k *Keeper) admit(q *Queue, i *broker.Inspection) broker.Verdict {
	who := i.Client.Principal()
	if q.Space != "" && q.Space != string(who.Home()) {
		return broker.Verdict{}
	}
	if len(i.Payload) > mostPayload {
		return broker.Verdict{Reason: tooLarge, Text: "a message of a queue may have 262144 bytes"}
	}
	m := &Message{Queue: q.Name, Space: who.Home(), By: who.Party().String(), Topic: i.Topic, Payload: i.Payload}
	of, text := k.lacks(m, who.Unbounded())
	if of == fair.OfNobody {
		return broker.Verdict{}
	}
	k.refused.WithLabelValues(q.Name, string(of)).Inc()
	return broker.Verdict{Reason: quotaExceeded, Text: text}
}

// ofQueue says that a queue is full.
const ofQueue fair.Whose = "queue"

// lacks says whose room has no place for a message, and in words.
func (k *Keeper) lacks(m *Message, privileged bool) (of fair.Whose, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.storing >= mostStoring {
		return fair.OfBridge, "too many messages of queues come at once"
	}
	q := k.queues[m.Queue]
	own, all := load{1, m.size()}, load{1, m.size()}
	var used, share load
	if l := k.lines[lineKey{m.Queue, m.Space}]; l != nil {
		own, all = l.needs(m)
		used, share = l.all, l.of[m.By]
	}
	switch {
	case !q.room().holds(used, all):
		return ofQueue, "the queue " + q.Name + " is full"
	case !q.shareOf(q.room()).holds(share, own):
		return fair.OfPrincipal, "the share of a publisher of the queue " + q.Name + " is used up"
	}
	party := m.party()
	party.Privileged = privileged
	if of = k.room.Lacks(party, int64(own.messages), int64(own.bytes)); of != fair.OfNobody {
		return of, "too many messages wait in the queues of the " + string(of)
	}
	return fair.OfNobody, ""
}
