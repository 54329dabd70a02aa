package link

import (
	"strings"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
)

// A way is one direction of a link.
type way struct {
	rules    []Rule
	outbound bool
	reserved string // first level of the bridge's own topics
}

// from is the filter of a rule where its messages come from, to where they go.
func (w *way) from(r *Rule) string {
	if w.outbound {
		return r.Local + r.Topic
	}
	return r.Remote + r.Topic
}

// carry is the topic that a message has on the other side, and the rule for it; nil
// for one that is not carried. Rules do not overlap, so there is one at most. A
// remote broker may send topics without a subscription: they match no rule, and are
// dropped.
func (w *way) carry(name string) (string, *Rule) {
	for i := range w.rules {
		r := &w.rules[i]
		if !topic.Match(w.from(r), name) {
			continue
		}
		other, here := exchange(name, r.Remote, r.Local), ""
		if here = other; w.outbound {
			other, here = exchange(name, r.Local, r.Remote), name
		}
		if w.keeps(here) || len(other) > maxTopic || !topic.ValidName(other) {
			return "", nil
		}
		return other, r
	}
	return "", nil
}

// keeps reports whether a topic of this side is never carried, under any rule: the
// bridge's own, and those that begin with $, by which a broker and its doors are
// spoken to.
func (w *way) keeps(here string) bool {
	first, _, _ := strings.Cut(here, "/")
	return first == w.reserved || strings.HasPrefix(first, "$")
}

// exchange puts one prefix in the place of another that a topic begins with. The
// filter a/# covers the topic a, too.
func exchange(name, old, new string) string {
	if rest, ok := strings.CutPrefix(name, old); ok {
		return new + rest
	}
	return strings.TrimSuffix(new, "/")
}

// maxTopic is the longest topic that MQTT can name, in bytes.
const maxTopic = 65535

// back converts a Response Topic to the topic on the other side whose messages
// arrive here under the given one, "" if there is no rule for answers.
func (w *way) back(name string, answers *way) string {
	for i := range answers.rules {
		r := &answers.rules[i]
		here, there := r.Local, r.Remote
		if !w.outbound {
			here, there = r.Remote, r.Local
		}
		rest, ok := strings.CutPrefix(name, here)
		if ok && topic.Match(r.Topic, rest) && topic.ValidName(there+rest) && (w.outbound || !w.keeps(there+rest)) {
			return there + rest
		}
	}
	return ""
}

// retain is the retain flag of a message by a rule.
func (r *Rule) retain(was bool) bool {
	switch r.Retain {
	case retainNever:
		return false
	case retainAlways:
		return true
	}
	return was
}

// subscribe is the SUBSCRIBE for all rules of a way, with a highest QoS; nil
// without rules. handling is the Retain Handling of MQTT 5 for a filter.
func (w *way) subscribe(id uint16, most byte, handling func(filter string) byte) *packet.Subscribe {
	if len(w.rules) == 0 {
		return nil
	}
	s := &packet.Subscribe{PacketID: id}
	for i := range w.rules {
		filter := w.from(&w.rules[i])
		s.Filters = append(s.Filters, packet.Subscription{
			Filter: []byte(filter), QoS: min(byte(w.rules[i].QoS), most), NoLocal: true, RetainAsPublished: true, RetainHandling: handling(filter),
		})
	}
	return s
}

// filters are those of a way, where its messages come from.
func (w *way) filters() []string {
	list := make([]string, len(w.rules))
	for i := range w.rules {
		list[i] = w.from(&w.rules[i])
	}
	return list
}
