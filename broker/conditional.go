package broker

import (
	"github.com/aibridge/aibridge/broker/condition"
	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of conditions, each of which is held against every message on its topics.
const (
	mostConditional = 100    // subscriptions of a session that have one
	mostComparisons = 16_384 // of all conditions that a principal has at this bridge
)

// Inner is the filter that topics are held against: without a condition, and without
// $share/group/ or $exclusive/ before it.
func (b *Broker) Inner(filter string) string {
	plain, _, _ := b.split(filter)
	return topic.Inner(plain)
}

// split takes a filter and the condition behind it apart, where there are conditions.
func (b *Broker) split(filter string) (plain, text string, ok bool) {
	if !b.options.Conditions {
		return filter, "", false
	}
	return condition.Split(filter)
}

// conditionOf is the condition of a filter, nil for none. A text that is no condition
// belongs to the filter itself: its session is of a time without conditions.
func (b *Broker) conditionOf(filter string) *condition.Condition {
	plain, text, ok := b.split(filter)
	if !ok || refuseCondition(plain, text) != "" {
		return nil
	}
	c, _ := condition.Parse(text)
	return c
}

// refuseCondition says why a filter cannot have a condition, "" if it can.
func refuseCondition(plain, text string) string {
	if _, alone := topic.Exclusive(plain); alone {
		return "an exclusive subscription takes no condition"
	}
	if _, err := condition.Parse(text); err != nil {
		return err.Error()
	}
	return ""
}

// plain is the filter of a subscription, and the condition behind it.
func (sub *subscription) plain() (filter, text string) {
	if sub.where == nil {
		return sub.filter, ""
	}
	filter, text, _ = condition.Split(sub.filter)
	return filter, text
}

// narrow counts the subscriptions that have conditions; mu is held.
func (s *session) narrow() (n int) {
	for sub := range s.subs.all() {
		if sub.where != nil {
			n++
		}
	}
	return n
}

// compares is the number of comparisons in the conditions of a party.
func (x *index) compares(who protocol.Party) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.comparisons[who]
}

// countComparisons counts those of a subscription, or with less no longer; mu is held.
func (x *index) countComparisons(sub *subscription, less bool) {
	if sub.where == nil {
		return
	}
	who, n := sub.session.owner, sub.where.Comparisons()
	if less {
		n = -n
	}
	if x.comparisons == nil {
		x.comparisons = make(map[protocol.Party]int)
	}
	if x.comparisons[who] += n; x.comparisons[who] == 0 {
		delete(x.comparisons, who)
	}
}

// userProperties are those of the turn's message.
func (t *turn) userProperties() *condition.Properties {
	if !t.looked {
		t.looked = true
		_ = t.shown.DecodeProperties(t.msg.props) // was checked when it came in
		t.users.Of(t.shown.User)
	}
	return &t.users
}

// fits reports whether the turn's message is for a subscription.
func (t *turn) fits(sub *subscription) bool {
	return sub.where == nil || sub.where.Holds(t.userProperties())
}

// narrowed is a target with those of its subscriptions that the turn's message fits,
// nil if it fits none.
func (t *turn) narrowed(tg *target) *target {
	n := 0
	for _, sub := range tg.subs {
		if t.fits(sub) {
			n++
		}
	}
	switch n {
	case len(tg.subs):
		return tg
	case 0:
		t.count.unwanted++
		return nil
	}
	left := &target{s: tg.s}
	for _, sub := range tg.subs {
		if t.fits(sub) {
			left.add(sub)
		}
	}
	return left
}

// declined reports whether the turn's message does not fit the condition of a group,
// which all of its members share, at every bridge.
func (t *turn) declined(g *group) bool {
	if g.where == nil || g.where.Holds(t.userProperties()) {
		return false
	}
	t.count.unwanted++
	return true
}

// declinedBy is declined for the group that has an id among peers.
func (t *turn) declinedBy(r *route, id uint64) bool {
	for _, g := range r.groups {
		if g.id == id {
			return g.where != nil && !g.where.Holds(t.userProperties())
		}
	}
	return false
}

// wants reports whether a message fits the condition of the subscription.
func (sub *subscription) wants(m *message) bool {
	if sub.where == nil {
		return true
	}
	var p packet.Properties
	_ = p.DecodeProperties(m.props) // was checked when it came in
	var users condition.Properties
	users.Of(p.User)
	return sub.where.Holds(&users)
}
