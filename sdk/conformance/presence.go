package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aibridge/aibridge/protocol"
)

func presenceClauses() []clause {
	const where = "docs/protocol.md#presence"
	return []clause{
		{name: "presence/heartbeat", where: where, says: "an agent sends agent.heartbeat in the interval that the bridge names in heartbeat_interval", begins: true, run: beats},
		{name: "presence/forgotten", where: where, says: "an agent whose heartbeat is answered with 3001 registers itself and its skills anew", begins: true, run: comesBackWhenForgotten},
		{name: "presence/leave", where: "docs/sdk-conformance.md#the-device", says: "a device that is asked to end (SIGTERM) disconnects and ends with exit code 0", fresh: true, run: leavesInPeace},
	}
}

// shortly is a heartbeat interval that a test can wait for, in seconds.
const shortly = 0.2

func beats(ctx context.Context, s *stage) error {
	s.bridge.set(func(b *bridge) { b.heartbeat = shortly })
	if err := s.start(); err != nil {
		return err
	}
	if err := s.serving(ctx, 0); err != nil {
		return err
	}
	place := 0
	for range 3 {
		next, seen, err := s.await(ctx, place, fmt.Sprintf("send agent.heartbeat three times, with heartbeat_interval %g s", shortly), isCommand("agent.heartbeat"))
		if err != nil {
			return err
		}
		var p struct {
			ID protocol.AgentID `json:"agent_id"`
		}
		if json.Unmarshal(seen.request.Params, &p) != nil || p.ID != s.bridge.agent {
			return fmt.Errorf("the heartbeat is that of %q", p.ID)
		}
		place = next
	}
	return nil
}

func comesBackWhenForgotten(ctx context.Context, s *stage) error {
	s.bridge.set(func(b *bridge) { b.heartbeat = shortly })
	if err := s.start(); err != nil {
		return err
	}
	if err := s.serving(ctx, 0); err != nil {
		return err
	}
	place := s.bridge.record.here()
	s.bridge.next("agent.heartbeat", reply{err: protocol.Errorf(protocol.NotFound, "there is no agent %s", s.bridge.agent)})
	place, _, err := s.await(ctx, place, "send agent.heartbeat", isCommand("agent.heartbeat"))
	if err != nil {
		return err
	}
	s.capabilities = nil
	place, found, err := s.await(ctx, place, "register itself anew after a heartbeat was answered with 3001", answeredCommand("agent.register"))
	if err != nil {
		return err
	}
	if !s.learn(found.request.Params) {
		if _, _, err = s.await(ctx, place, "register its skill anew after a heartbeat was answered with 3001", answeredCommand("skill.register")); err != nil {
			return err
		}
	}
	return s.echo(ctx)
}

func leavesInPeace(ctx context.Context, s *stage) error {
	if err := s.echo(ctx); err != nil {
		return err
	}
	place := s.bridge.record.here()
	if err := s.device.leave(ctx, s.options.Patience); err != nil {
		return err
	}
	_, _, err := s.await(ctx, place, "disconnect", isKind(disconnected))
	return errors.Join(err)
}
