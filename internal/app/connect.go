package app

import (
	"context"
	"encoding/json"
	"net"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/connect/binding"
	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/connect/homeassistant"
	"github.com/aibridge/aibridge/connect/homeassistant/entities"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security"
)

// startConnect has devices at work that know nothing of the bridge.
func startConnect(s *state, d *domains, server *broker.Broker, router *commands.Router) error {
	metrics := device.NewMetrics(s.metrics)
	fleet := func(origin string, space protocol.SpaceID) device.Options {
		return device.Options{
			Origin: origin, Space: space, Root: s.config.Root, Router: router, Agents: d.agents, Metrics: metrics, Log: s.log,
			Dial: func(who grant.Grant) (net.Conn, error) { return server.Inside("bridge", who) },
			Mark: func(client string) error {
				for qos := range byte(2) {
					if _, err := server.Publish(protocol.Only(device.Principal(origin, space).Party()), protocol.Message{Topic: s.topics.ClientResponse(client), QoS: qos}); err != nil {
						return err
					}
				}
				return nil
			},
		}
	}
	if path := s.config.Connect.Bindings; path != "" {
		bindings, err := binding.Open(binding.Options{Path: path, Root: s.config.Root, Log: s.log, Fleet: func(space protocol.SpaceID) *device.Fleet {
			return device.NewFleet(fleet("bindings", space))
		}})
		if err != nil {
			return err
		}
		s.life.Run("bindings", s.once(bindings.Run))
	}
	if ha := s.config.Connect.HomeAssistant; ha.Space != "" {
		discovery := homeassistant.NewDiscovery(ha, homeassistant.Options{
			Announcers: d.announcers, Rights: topicRights{s.credentials, d.rights}, Fleet: fleet("homeassistant", protocol.SpaceID(ha.Space)),
		})
		d.plain.discovery.Store(discovery)
		for _, filter := range discovery.Filters() {
			server.Handle(filter, d.plain.announces)
		}
		s.life.Run("announcements for Home Assistant", s.once(discovery.Run))
	}
	startEntities(s, d, server, router)
	keepRemoteAgents(s, d)
	return nil
}

// startEntities shows skills to Home Assistant.
func startEntities(s *state, d *domains, server *broker.Broker, router *commands.Router) {
	settings := s.config.Connect.HomeAssistant.Publish
	publisher := entities.New(entities.Options{
		Settings: settings, Root: s.config.Root, BridgeID: s.config.ID, Version: s.version, Router: router, Log: s.log,
		Metrics: entities.NewMetrics(s.metrics), Publish: server.Publish, Retained: server.Retained, Online: d.agents.SkillOnline,
		Ask: approved{d}.run,
	})
	if settings.Space != "" {
		d.plain.entities.Store(publisher)
		server.Handle(publisher.CommandFilter(), d.plain.commands)
		server.Handle(publisher.StatusTopic(), d.plain.says)
		d.skills.OnChange(func(_ string, old, now *registry.SkillRecord) { publisher.Changed(shownSkill(old, now)) })
		s.promised.entities.keep(publisher)
	}
	s.life.Run("skills for Home Assistant", s.once(publisher.Run))
}

// shownSkill is a skill for Home Assistant, without capabilities if it is gone.
func shownSkill(old, now *registry.SkillRecord) entities.Skill {
	if now == nil {
		return entities.Skill{Space: homeOf(old), ID: old.ID}
	}
	shown := entities.Skill{Space: homeOf(now), ID: now.ID, Owner: now.Owner, Name: now.Name}
	for i := range now.Capabilities {
		c := &now.Capabilities[i]
		shown.Capabilities = append(shown.Capabilities, entities.Capability{
			ID: c.ID, Name: c.Name, Params: json.RawMessage(c.ParamsSchema.String()), Result: json.RawMessage(c.ResultSchema.String()),
			Reads: c.Effect == registry.Reads, Risk: c.Risk, Sealed: c.Sealed == registry.SealedRequired,
		})
	}
	return shown
}

// An approved runs capabilities that need an approval, which it gets as for models:
// through the gate of tools.
type approved struct{ *domains }

func (d approved) run(ctx context.Context, who *protocol.Principal, skill protocol.SkillID, capability protocol.CapabilityID, params []byte) error {
	name := string(skill) + "." + string(capability)
	for at := range len(name) { // a tool is named by both
		if id := protocol.SkillID(name[:at]); name[at] == '.' && id != skill {
			if _, taken := d.agents.SkillFacts(who.Home(), id); taken {
				return protocol.Errorf(protocol.PermissionDenied, "the skill %q may have a tool of the same name", id)
			}
		}
	}
	env := tools.Environment{Principal: who, Space: who.Home()}
	box, err := d.tools.catalogue.Select(ctx, env, []string{name})
	if err != nil {
		return err
	}
	return d.tools.executor.Execute(ctx, box, env, []*chat.ToolCall{{ID: protocol.NewID(), Name: name, Args: params}})[0].Err
}

// topicRights judge the rights of the principals of grants to topics. A credential
// that has expired was good when the grant was given, and counts as for a Will.
type topicRights struct {
	credentials *security.Credentials
	topics      *security.TopicRights
}

// MayPublish implements [device.Rights].
func (r topicRights) MayPublish(g grant.Grant, topic string, retain bool) error {
	who, err := r.credentials.Rights(g)
	if err != nil {
		return err
	}
	return refusal(r.topics.MayPublish(who, topic, retain))
}

// MaySubscribe implements [device.Rights].
func (r topicRights) MaySubscribe(g grant.Grant, topic string) error {
	who, err := r.credentials.Rights(g)
	if err != nil {
		return err
	}
	return refusal(r.topics.MaySubscribe(who, topic))
}

// refusal is a ruling as an error, nil for one that allows.
func refusal(r security.Ruling) error {
	if r.Reason == 0 {
		return nil
	}
	return protocol.Errorf(protocol.PermissionDenied, "%s", r.Text)
}
