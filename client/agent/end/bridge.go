package end

import (
	"context"
	"errors"
	"fmt"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// bridge is the part of a connection that the runtime needs.
type bridge interface {
	// ended is closed when there will be no connection any more; lost returns the
	// reason.
	ended() <-chan struct{}
	lost() error

	// registered lists the skills the bridge knows of the agent, from an
	// earlier run.
	registered(ctx context.Context) ([]protocol.SkillID, error)

	// offer registers a skill, or replaces its registration, and from then on gives its
	// invocations to the capabilities' handlers.
	offer(ctx context.Context, s client.Skill) error

	// offerAll does it for several before the agent can be reached, and returns
	// the ids of those that were registered.
	offerAll(ctx context.Context, all []client.Skill) []protocol.SkillID

	// withdraw removes the registration of an offered skill.
	withdraw(ctx context.Context, id protocol.SkillID) error
}

// connection is the bridge at the other end of a client. It is used by one
// goroutine.
type connection struct {
	client *client.Client
	agent  protocol.AgentID
	served map[protocol.SkillID]*client.ServedSkill
}

func newConnection(c *client.Client, agent protocol.AgentID) *connection {
	return &connection{client: c, agent: agent, served: map[protocol.SkillID]*client.ServedSkill{}}
}

func (c *connection) ended() <-chan struct{} { return c.client.Done() }

func (c *connection) lost() error {
	if err := c.client.Err(); err != nil {
		return fmt.Errorf("the connection to the bridge ended: %w", err)
	}
	return errors.New("the client was closed")
}

func (c *connection) registered(ctx context.Context) ([]protocol.SkillID, error) {
	known, err := client.Call[struct {
		Skills []protocol.SkillID `json:"skills"`
	}](ctx, c.client, "agent.get", map[string]any{"agent_id": c.agent})
	if protocol.CodeOf(err) == protocol.NotFound {
		return nil, nil
	}
	return known.Skills, err
}

func (c *connection) offer(ctx context.Context, s client.Skill) error {
	served, err := c.client.ServeSkill(ctx, s)
	if err == nil {
		c.served[s.ID] = served
	}
	return err
}

func (c *connection) offerAll(ctx context.Context, all []client.Skill) (done []protocol.SkillID) {
	served, _ := c.client.ServeSkills(ctx, all...) // those that failed are offered one by one
	for _, s := range served {
		if s != nil {
			c.served[s.ID()] = s
			done = append(done, s.ID())
		}
	}
	return done
}

func (c *connection) withdraw(ctx context.Context, id protocol.SkillID) error {
	if served := c.served[id]; served != nil {
		delete(c.served, id)
		return served.Withdraw(ctx)
	}
	// It is of an earlier run, or an attempt failed after the client had let
	// go of it.
	_, err := client.Call[struct{}](ctx, c.client, "skill.unregister", map[string]any{"skill_id": id, "agent_id": c.agent})
	return err
}
