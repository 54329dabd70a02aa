package mqtt

import (
	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A memory is what is known of the publications of one connection, so that the
// next ones are read sooner.
type memory struct {
	plans   commands.Plans   // for the calls of a caller
	replies protocol.Replies // of an agent
}

// memoryOf is the memory of a client, which is made when it is of use first.
func memoryOf(c *broker.Client) *memory {
	if m, ok := c.Memory.Load().(*memory); ok {
		return m
	}
	c.Memory.CompareAndSwap(nil, new(memory))
	return c.Memory.Load().(*memory)
}
