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
	a2adoor "github.com/aibridge/aibridge/doors/a2a"
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
		Agents:   natsAgents(s, d, router),
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

// natsAgents are the bridge and its sets of skills as agents in NATS: they answer as
// they do by A2A.
func natsAgents(s *state, d *domains, router *commands.Router) natsdoor.Agents {
	if s.config.Doors.NATS.Agents == "" {
		return natsdoor.Agents{}
	}
	door := a2adoor.New(conversations(s, d, router, natsdoor.Name))
	return natsdoor.Agents{
		List: func(ctx context.Context, who *protocol.Principal, most int) (list []natsdoor.Agent) {
			for _, skill := range skillsFor(ctx, s, d, who) {
				if len(list) == most {
					break
				}
				list = append(list, natsdoor.Agent{ID: skill.ID, Description: cmp.Or(skill.Description, skill.Name)})
			}
			return list
		},
		Admit: func(who *protocol.Principal, bytes int) error {
			if limited := s.quotas.Admit(who, bytes); limited != nil {
				return limited
			}
			return nil
		},
		Prompt: func(ctx context.Context, p *natsdoor.Prompt) error {
			return door.Prompt(ctx, &a2adoor.Prompt{
				Principal: p.Principal, ID: p.ID, Agent: p.Agent, Text: p.Text, Traceparent: p.Traceparent, Ask: p.Ask,
				Tell: func(text string, parts []a2adoor.Part) {
					var files []natsdoor.File
					for i := range parts {
						files = append(files, natsdoor.File{Name: parts[i].Filename, MediaType: parts[i].MediaType, Content: parts[i].Raw})
					}
					p.Tell(text, files)
				},
			})
		},
	}
}

// offeredTo are capabilities that a principal may invoke by NATS.
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

// skillsFor are the skills of a principal's space that it may invoke, by id.
func skillsFor(ctx context.Context, s *state, d *domains, who *protocol.Principal) (list []*registry.SkillRecord) {
	for _, skill := range d.skills.All() {
		if homeOf(skill) == who.Home() && s.judge.MayInvoke(ctx, who, who.Home(), skill.ID) == nil {
			list = append(list, skill)
		}
	}
	slices.SortFunc(list, func(a, b *registry.SkillRecord) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return list
}
