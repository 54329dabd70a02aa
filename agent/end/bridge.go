package end

import (
	"context"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// bridge is what the runtime needs of the connection to one.
type bridge interface {
	// offer registers a skill, or replaces what was registered of it, and
	// from then on gives its invocations to the capabilities' handlers.
	offer(ctx context.Context, s client.Skill) error

	// withdraw takes back what was offered.
	withdraw(ctx context.Context, id protocol.SkillID) error
}

// connection is the bridge at the other end of a client. It is used by one
// goroutine.
type connection struct {
	client *client.Client
	served map[protocol.SkillID]*client.ServedSkill
}

func newConnection(c *client.Client) *connection {
	return &connection{client: c, served: map[protocol.SkillID]*client.ServedSkill{}}
}

func (c *connection) offer(ctx context.Context, s client.Skill) error {
	served, err := c.client.ServeSkill(ctx, s)
	if err == nil {
		c.served[s.ID] = served
	}
	return err
}

func (c *connection) withdraw(ctx context.Context, id protocol.SkillID) error {
	if served := c.served[id]; served != nil {
		delete(c.served, id)
		return served.Withdraw(ctx)
	}
	// An earlier attempt failed after the client had let go of the skill.
	_, err := client.Call[struct{}](ctx, c.client, "skill.unregister", map[string]any{"skill_id": id})
	return err
}
