package broker

import "github.com/aibridge/aibridge/protocol"

// Quota bounds what clients take of the broker, beyond what they may do at
// all. It is asked on the message path: implementations must be fast and must
// not block.
type Quota interface {
	// Publish takes a message into account that the client may publish, or
	// refuses it, with reason code 0x97 (quota exceeded) for most. The size is
	// that of its topic and payload in bytes.
	Publish(c *Client, topic string, size int) Verdict
	// Retained is how many messages may be retained of a principal's, and of
	// all that clients of its space published; 0 is any number.
	Retained(who *protocol.Principal) (own, space int)
	// RetainedRefused is told of a message that is not retained, for the
	// space's limit or the principal's own.
	RetainedRefused(space bool)
}

// admits asks the quota about a message.
func (t *turn) admits(c *Client, topic string, payload []byte) Verdict {
	if t.b.options.Quota == nil {
		return Verdict{}
	}
	return t.b.options.Quota.Publish(c, topic, len(topic)+len(payload))
}

// retainFor keeps or removes the turn's message as the retained one, as far as
// its publisher may have any.
func (t *turn) retainFor(who *protocol.Principal) bool {
	most := retainLimits{bytes: t.b.options.Limits.RetainedBytes, known: t.b.full()}
	quota := t.b.options.Quota
	if quota != nil {
		most.own, most.space = quota.Retained(who)
	}
	how := t.retain(most)
	if quota != nil && (how == ownFull || how == spaceFull) {
		quota.RetainedRefused(how == spaceFull)
	}
	return how == stays
}
