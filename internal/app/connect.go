package app

import (
	"net"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/connect/binding"
	"github.com/aibridge/aibridge/connect/device"
	"github.com/aibridge/aibridge/connect/homeassistant"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
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
		for _, filter := range discovery.Filters() {
			server.Handle(filter, func(p *broker.Publication) { discovery.Publishes(p.Client.Principal(), p.Topic, p.Payload) })
		}
		s.life.Run("announcements for Home Assistant", s.once(discovery.Run))
	}
	return nil
}

// topicRights judge what the givers of grants may do with topics. A credential
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
