package topic

import (
	"strings"

	"github.com/aibridge/aibridge/broker"
)

// MayPublish is the verdict on a publication of a client on a topic of the profile,
// beside policy: a client acts for itself alone.
func (t *Topic) MayPublish(c *broker.Client, topic string, retain bool) broker.Verdict {
	n, ok := parse(topic)
	switch {
	case !ok:
		return broker.NotAuthorized("no such topic of A2A over MQTT")
	case n.family == discovery && !retain:
		return broker.NotAuthorized("a card must be retained")
	case n.family != discovery && retain:
		return broker.NotAuthorized("only cards are retained")
	case n.family == events && unitOf(n.id) == t.Unit:
		return broker.NotAuthorized("the agents of the unit are the bridge's own")
	case (n.family == discovery || n.family == events) && n.id != c.ID:
		return broker.NotAuthorized("the client id must be " + n.id)
	case n.family == replies && n.rest == "":
		return broker.NotAuthorized("replies need a suffix")
	}
	return broker.Verdict{}
}

// MaySubscribe is the verdict on a subscription of a client to a filter of the profile,
// shared or not.
func (t *Topic) MaySubscribe(c *broker.Client, filter string) broker.Verdict {
	if rest, ok := strings.CutPrefix(filter, "$share/"); ok {
		_, filter, _ = strings.Cut(rest, "/")
	}
	defer t.visits(c)
	family, _, _ := strings.Cut(strings.TrimPrefix(filter, Root), "/")
	if family == discovery || family == events {
		return broker.Verdict{}
	}
	n, ok := parse(filter)
	if !ok {
		return broker.NotAuthorized("no such filter of A2A over MQTT, or it reaches further than you may")
	}
	unit, pooled := n.pooled()
	if unit == t.Unit {
		return broker.NotAuthorized("the agents of the unit are the bridge's own")
	}
	if pooled {
		if !IsID(c.ID) || unitOf(c.ID) != unit || !t.owns(c, c.ID) {
			return broker.NotAuthorized("the pool is for agents of " + unit)
		}
		return broker.Verdict{}
	}
	switch {
	case n.id != c.ID:
		return broker.NotAuthorized("the client id must be " + n.id)
	case !t.owns(c, n.id):
		return broker.NotAuthorized("the agent is somebody else's")
	}
	return broker.Verdict{}
}

// owns reports whether an agent belongs to the client, or has no owner.
func (t *Topic) owns(c *broker.Client, id string) bool {
	who := c.Principal()
	known, _, ok := t.Cards.Get(key(who.Home(), id))
	return !ok || known.Owner.Includes(who.Party())
}
