package mqtt

import (
	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A memory is what is known of the publications of one connection, so that the
// next ones are read sooner.
type memory struct {
	answers string           // the topic of the client's own, on which nobody else hears them
	plans   commands.Plans   // for the calls of a caller
	replies protocol.Replies // of an agent
}

// memoryOf is the memory of a client, which is made when it is of use first.
func memoryOf(c *broker.Client, topics protocol.Topics) *memory {
	if m, ok := c.Memory.Load().(*memory); ok {
		return m
	}
	c.Memory.CompareAndSwap(nil, &memory{answers: topics.ClientResponse(c.ID)})
	return c.Memory.Load().(*memory)
}
