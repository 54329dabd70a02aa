package mqtt

import (
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// PublishTask tells an event of a task on its topic.
func (c *Clients) PublishTask(to protocol.Recipients, id protocol.TaskID, e *protocol.Event) {
	c.publishEvent(to, c.topics.TaskEvent(id), e)
}

// PublishApproval tells an event of an approval on the topic of approvals.
func (c *Clients) PublishApproval(to protocol.Recipients, e *protocol.Event) {
	c.publishEvent(to, c.topics.Event("approval"), e)
}

// PublishLate tells somebody an event of a call that has been answered, where that
// answer went.
func (c *Clients) PublishLate(who protocol.Party, to *commands.ReturnAddress, e *protocol.Event) {
	m := protocol.Message{Topic: to.Topic, Payload: e.Append(nil), QoS: to.QoS, ContentType: protocol.ContentJSON, CorrelationData: to.Correlation}
	if _, err := c.Publish(protocol.Only(who), m); err != nil {
		c.log.Warn("an event is not published", "topic", to.Topic, "event", e.Name, "error", err)
	}
}

func (c *Clients) publishEvent(to protocol.Recipients, topic string, e *protocol.Event) {
	m := protocol.Message{Topic: topic, Payload: e.Append(nil), QoS: 1, ContentType: protocol.ContentJSON}
	if e.Traceparent != "" {
		m.UserProperties = []protocol.UserProperty{{Key: protocol.TraceparentProperty, Value: e.Traceparent}}
	}
	if _, err := c.Publish(to, m); err != nil {
		c.log.Warn("an event is not published", "topic", topic, "event", e.Name, "error", err)
	}
}
