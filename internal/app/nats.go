package app

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	natsdoor "github.com/aibridge/aibridge/doors/nats"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/registry"
)

// startNATS serves the clients of a NATS, if one is configured.
func startNATS(s *state, d *domains, server *broker.Broker, router *commands.Router) error {
	settings := s.config.Doors.NATS
	if !settings.On() {
		return nil
	}
	door, err := natsdoor.Open(natsdoor.Options{
		Settings: settings, Router: router, Dev: s.config.Dev,
		Authenticate: func(ctx context.Context, h http.Header, otherwise string) (*protocol.Principal, error) {
			return d.identities.authenticator.Header(ctx, natsdoor.Name, h, otherwise)
		},
		Offered: func(ctx context.Context, who *protocol.Principal, most int) []natsdoor.Capability {
			return offeredTo(ctx, s, d, who, most)
		},
		Root:     s.topics.Root(),
		BridgeID: s.config.ID, Version: s.version, Limits: s.config.Limits.ForCommands(), Registerer: s.metrics, Log: s.log,
	})
	if err != nil {
		return err
	}
	s.life.Drain("NATS", door.Close)
	if len(settings.Publish)+len(settings.Subscribe) > 0 {
		dial := func(who grant.Grant) (net.Conn, error) { return server.Inside(natsdoor.Name, who) }
		s.life.Run("NATS subjects", s.once(func(ctx context.Context) error { return door.Carry(ctx, dial) }))
	}
	return nil
}

// offeredTo are capabilities that somebody may invoke by NATS.
func offeredTo(ctx context.Context, s *state, d *domains, who *protocol.Principal, most int) (list []natsdoor.Capability) {
	for _, skill := range skillsFor(ctx, s, d, who) {
		for i := range skill.Capabilities {
			c := &skill.Capabilities[i]
			if c.Sealed == registry.SealedRequired {
				continue
			}
			if len(list) == most {
				return list
			}
			list = append(list, natsdoor.Capability{
				Skill: skill.ID, ID: c.ID, Description: cmp.Or(c.Description, c.Name), Params: json.RawMessage(c.ParamsSchema.String()),
			})
		}
	}
	return list
}

// skillsFor are the skills of somebody's space that he may invoke, by id.
func skillsFor(ctx context.Context, s *state, d *domains, who *protocol.Principal) (list []*registry.SkillRecord) {
	for _, skill := range d.skills.All() {
		if homeOf(skill) == who.Home() && s.judge.MayInvoke(ctx, who, who.Home(), skill.ID) == nil {
			list = append(list, skill)
		}
	}
	slices.SortFunc(list, func(a, b *registry.SkillRecord) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return list
}
