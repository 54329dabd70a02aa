package app

import (
	"encoding/json"

	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/internal/authz"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/registry/ask"
	"github.com/aibridge/aibridge/registry/effects"
	"github.com/aibridge/aibridge/registry/schema"
	"github.com/aibridge/aibridge/security"
)

// newRegistry makes the part that keeps agents, skills and resources.
func newRegistry(s *state, skills *store.Table[registry.SkillRecord], keyring *security.Keyring, models *modelParts, shared *relaying) (*registry.Service, error) {
	certificates := authz.Certificates{PKI: s.promised.certificates.value}
	options := registry.Options{
		Agents:       store.NewTable[registry.Agent](s.Store, "agent"),
		Skills:       skills,
		Resources:    store.NewTable[registry.ResourceRecord](s.Store, "resource"),
		Joins:        store.NewTable[registry.JoinRecord](s.Store, "skill-join"),
		Names:        store.NewTable[registry.NameRecord](s.Store, "skill-name"),
		Effects:      effects.Options{Records: store.NewTable[effects.Record](s.Store, "effect"), Owner: s.owner(), Ended: s.ended},
		Publisher:    s.clients,
		Topics:       s.topics,
		BridgeID:     s.config.ID,
		Limits:       s.config.Limits.ForCommands(),
		AllowPrivate: s.config.Skills.AllowPrivate,
		Certified:    s.credentials.Stands,
		CertifiedFor: certificates.For,
		CapOwners: func(space protocol.SpaceID, skill protocol.SkillID) []protocol.Party {
			return s.promised.channels.value().OwnersKnowing(space, skill)
		},
		CapsKnowing: func(space protocol.SpaceID, skill protocol.SkillID) []protocol.CapID {
			return s.promised.channels.value().Knowing(space, skill)
		},
		Stamp:       func(id, secret string) []byte { return keyring.Stamp("join", id, secret) },
		Stamped:     func(stamp []byte, id, secret string) bool { return keyring.Stamped(stamp, "join", id, secret) },
		Routes:      certificates,
		MayName:     site.Names(s.config.Sites.Have).Check,
		TellsCaller: site.Names(s.config.Sites.Have).TellsCaller,
		Reported: func(space protocol.SpaceID, agent protocol.AgentID, skill protocol.SkillID) (json.RawMessage, bool) {
			return s.promised.shadows.value().Reported(space, agent, skill)
		},
		AgentChanged: func(space protocol.SpaceID, agent protocol.AgentID) {
			s.promised.shadows.value().Stirred(space, agent)
			s.promised.scenes.value().AgentChanged(space, agent)
			if shown := s.promised.entities.value(); shown != nil {
				shown.Stir()
			}
			if joined := s.promised.site.value(); joined != nil {
				joined.Stir()
			}
		},
		Models: func(space protocol.SpaceID, id protocol.AgentID) []registry.CardModel {
			return models.agent.Card(models.service, space, id)
		},
		Inside:     models.agent.Is,
		Disconnect: s.clients.Disconnect,
		Mistaken: func(agent ask.AgentKey, what ask.Mistake, reason string) {
			if w := s.promised.witness.value(); w != nil {
				w.Mistaken(agent, what, reason)
			}
		},
		Log:        s.log,
		Tracer:     s.tracer,
		Registerer: s.metrics,
	}
	if shared != nil {
		options.Cluster, options.Owner = shared.joinRegistry, s.invoker
	}
	agents, err := registry.New(options)
	if err != nil {
		return nil, err
	}
	s.promised.agents.keep(agents)
	agents.OnFactsChange(s.policies.FactsChanged)
	return agents, nil
}

// compileSchema compiles a schema that came from an agent.
func compileSchema(text json.RawMessage) (func(json.RawMessage) error, error) {
	source, err := schema.NewSource(text)
	if err != nil {
		return nil, err
	}
	compiled, err := schema.Compile(source, schema.Annotate)
	if err != nil {
		return nil, err
	}
	return compiled.Check, nil
}
