package queue

import (
	"strings"

	"github.com/aibridge/aibridge/broker"
)

// Prefix begins the filters by which workers subscribe to queues: $queue/NAME.
const Prefix = "$queue/"

// Reason codes of MQTT 5.
const (
	implementation     = 0x83
	topicFilterInvalid = 0x8F
	topicNameInvalid   = 0x90
	tooLarge           = 0x95
	quotaExceeded      = 0x97
)

// MayPublish refuses: messages get into a queue by its topic.
func (k *Keeper) MayPublish(*broker.Client, string, bool) broker.Verdict {
	return broker.Verdict{Reason: topicNameInvalid, Text: "a message gets into a queue by the topic of that, not by $queue"}
}

// MaySubscribe lets clients work for the queues of their space that may subscribe to the
// messages of these, and look after their dead letters.
func (k *Keeper) MaySubscribe(c *broker.Client, filter string) broker.Verdict {
	name, topics, more := strings.Cut(strings.TrimPrefix(filter, Prefix), "/")
	q := k.queues[name]
	switch {
	case q == nil || q.Space != "" && q.Space != string(c.Principal().Home()):
		return broker.Verdict{Reason: topicFilterInvalid, Text: "no such queue is configured"}
	case more && topics == dead && q.DeadLetters > 0:
	case more && topics != q.Topic:
		return broker.Verdict{Reason: topicFilterInvalid, Text: "the queue has another topic"}
	}
	return k.MayHear(c, q.Topic)
}

// Connected and Disconnected are of no interest: subscriptions are.
func (k *Keeper) Connected(*broker.Client) {}

// Disconnected implements the rules of a profile.
func (k *Keeper) Disconnected(*broker.Client) {}

// Subscribed is told that a client has become a worker. It does not block.
func (k *Keeper) Subscribed(*broker.Client, string) { k.alert() }
