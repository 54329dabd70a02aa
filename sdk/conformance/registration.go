package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aibridge/aibridge/protocol"
)

func registrationClauses() []clause {
	return []clause{
		{
			name: "registration/order", where: "docs/protocol.md#presence",
			says:   "an agent subscribes to its request topic, so that it is online, and registers itself and its skills",
			begins: true, run: registersInOrder,
		},
		{
			name: "registration/capabilities", where: "docs/sdk-conformance.md#the-device",
			says: "the device registers the capabilities of the contract, each with a schema of its params that is one",
			run:  describesCapabilities,
		},
		{
			name: "registration/busy", where: "docs/protocol.md#codes",
			says:   "an error of the class «after retry_after_ms» is repeated after that time, and one «with backoff» with pauses",
			begins: true, run: registersWithABusyBridge,
		},
		{
			name: "registration/lost", where: "docs/protocol.md#codes",
			says:   "a registration whose answer the connection takes with it is made again",
			begins: true, run: registersOverALostConnection,
		},
	}
}

func registersInOrder(ctx context.Context, s *stage) error {
	if err := s.start(); err != nil {
		return err
	}
	if err := s.serving(ctx, 0); err != nil {
		return err
	}
	_, register, err := s.await(ctx, 0, "register", isCommand("agent.register"))
	if err != nil {
		return err
	}
	var p struct {
		ID   protocol.AgentID `json:"agent_id"`
		Type string           `json:"type"`
	}
	if err := json.Unmarshal(register.request.Params, &p); err != nil || p.ID != s.bridge.agent || p.Type != "end_agent" {
		return fmt.Errorf("it registers as agent_id %q of type %q; AIBRIDGE_AGENT_ID is %q and the type end_agent", p.ID, p.Type, s.bridge.agent)
	}
	return s.echo(ctx)
}

func describesCapabilities(_ context.Context, s *stage) error {
	for _, id := range required {
		if !s.has(id) {
			return fmt.Errorf("it has no capability %s, only %s", id, s.names())
		}
	}
	for id, c := range s.capabilities {
		var schema map[string]any
		if len(c.Params) > 0 && json.Unmarshal(c.Params, &schema) != nil {
			return fmt.Errorf("params_schema of %s is no object: %s", id, c.Params)
		}
		if c.Effect != "" && c.Effect != "read" && c.Effect != "act" {
			return fmt.Errorf("effect of %s is %q", id, c.Effect)
		}
	}
	return nil
}

func registersWithABusyBridge(ctx context.Context, s *stage) error {
	busy := reply{err: protocol.Errorf(protocol.Busy, "too much to do").With("retry_after_ms", 20)}
	down := reply{err: protocol.Errorf(protocol.StoreUnavailable, "the store is away")}
	s.bridge.next("agent.register", busy, down)
	s.bridge.next("skill.register", busy)
	if err := s.start(); err != nil {
		return err
	}
	if err := s.serving(ctx, 0); err != nil {
		return err
	}
	return s.echo(ctx)
}

func registersOverALostConnection(ctx context.Context, s *stage) error {
	s.bridge.next("agent.register", reply{cut: true})
	if err := s.start(); err != nil {
		return err
	}
	place, _, err := s.await(ctx, 0, "register itself", isCommand("agent.register"))
	if err != nil {
		return err
	}
	if err := s.serving(ctx, place); err != nil {
		return errors.Join(errors.New("after a cut in the middle of agent.register"), err)
	}
	return s.echo(ctx)
}
