package app

import (
	"context"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/doors/files/transfer"
	mcpmqtt "github.com/aibridge/aibridge/doors/mcp/mqtt"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/doors/mqtt/check"
	"github.com/aibridge/aibridge/doors/mqtt/delayed"
	"github.com/aibridge/aibridge/doors/mqtt/sparkplug"
	"github.com/aibridge/aibridge/doors/southbound"
	"github.com/aibridge/aibridge/protocol"
)

// roomAroundPayload is the room of an MQTT packet beyond the envelope: the
// topic and the properties.
const roomAroundPayload = 64 << 10

// openBroker makes the MQTT server.
func openBroker(ctx context.Context, s *state, d *domains) (*broker.Broker, error) {
	if d.relay != nil {
		if err := d.relay.estates.Take(ctx); err != nil {
			return nil, err
		}
	}
	journal, err := s.Store.OpenJournal(ctx)
	if err != nil {
		return nil, err
	}
	options := mqttdoor.ServerOptions{
		Clients:       s.clients,
		Agents:        d.agents,
		Authenticator: d.identities.authenticator,
		Credentials:   s.credentials,
		Rights:        d.rights,
		Quotas:        s.quotas,
		Broker: broker.Options{
			Log:        s.log,
			MaxPacket:  s.config.Limits.Payload + roomAroundPayload,
			Limits:     s.config.MQTT.Limits(),
			Conditions: s.config.MQTT.Conditions,
			Journal:    journal,
			Clock:      s.clock,
			Gate:       s.gate,
			Version:    s.version,
			Full:       s.disk.Low,
			Refused:    s.promised.witness.value().Refused,
			Registerer: s.metrics,
			Waiting:    waitingForLinks(s),
			Awaiting:   s.awaiting,
			Mark:       d.links.Mark,
		},
	}
	if s.config.A2A.MQTT != "" {
		options.Profiles = append(options.Profiles, mqttdoor.Profile{Root: "$a2a/", Topics: func() mqttdoor.Topics { return s.promised.a2a.value() }})
	}
	if s.config.MCP.OverMQTT() {
		if list := s.config.MCP.Suggestions; len(list) > 0 {
			options.Broker.ConnackProperties = func(c *broker.Client, shown []protocol.UserProperty) []protocol.UserProperty {
				return mcpmqtt.Suggest(list, c, shown)
			}
		}
		options.Profiles = append(options.Profiles, mqttdoor.Profile{Root: mcpmqtt.Root, Topics: func() mqttdoor.Topics { return s.promised.mcp.value() }})
	}
	if d.relay != nil {
		options.Broker.Peers = d.relay
		if err := d.relay.own(ctx, s); err != nil {
			return nil, err
		}
		options.Broker.Directory, options.Broker.Exclusives = d.relay.directory, d.relay.holders
		if options.Broker.Retained, err = s.Store.OpenRetained(ctx); err != nil {
			return nil, err
		}
	}
	d.queues = newQueues(s, d, &options)
	server, err := mqttdoor.NewServer(options)
	if err != nil {
		return nil, err
	}
	d.queues.Attend(server)
	s.life.Run("queues", d.queues.Run)
	server.BeforeWrite(s.audit.Keep)
	if d.relay != nil {
		s.life.Add("relay", d.relay.close)
		s.life.Add("work for other bridges", d.relay.errands.close)
		if err := d.relay.begin(server); err != nil {
			return nil, err
		}
	}
	s.life.Add("broker", server.Close)
	s.life.Add("clients", sendClientsAway(s, server))
	s.life.Add("workers of queues", d.queues.Rest)
	return server, nil
}

// awaiting is the number of goroutines that wait for answers to their requests.
func (s *state) awaiting() int {
	if router := s.promised.router.value(); router != nil {
		return router.Awaiting()
	}
	return 0
}

// inspectMessages has messages inspected before they are delivered.
func inspectMessages(s *state, server *broker.Broker) error {
	check.Topics(server, s.config.MQTT.TopicMetrics, s.metrics)
	if s.config.MQTT.Sparkplug {
		sparkplug.Attend(server, s.log)
	}
	return check.Schemas(server, s.config.Schemas, s.metrics, s.log)
}

// delayMessages keeps messages that are to be published later.
func delayMessages(s *state, d *domains, server *broker.Broker) *delayed.Keeper {
	k := delayed.Open(delayed.Options{Server: server, Table: d.delayed, Rights: s.credentials.Rights, Registerer: s.metrics, Log: s.log})
	s.life.Add("delayed messages", k.Close)
	s.life.Run("delayed messages", s.once(k.Run))
	return k
}

// openMQTT lets MQTT clients at the router.
func openMQTT(s *state, d *domains, server *broker.Broker, router *commands.Router, south *southbound.Translator) {
	mqttdoor.New(mqttdoor.Options{
		Router:     router,
		Publisher:  server,
		Topics:     s.topics,
		BridgeID:   s.config.ID,
		Limits:     s.config.Limits.ForCommands(),
		MayRespond: d.rights.MayRespond,
		Gone:       s.clients.Gone,
		Southbound: south,
		Held:       true,
		Log:        s.log,
	}).Open(server)
}

// openChunks lets MQTT clients at files, chunk by chunk.
func openChunks(s *state, d *domains, server *broker.Broker) *transfer.Door {
	door := transfer.New(transfer.Options{
		Files:     d.files.For,
		Authorize: s.authorizer.Authorize,
		Grants:    s.credentials,
		Publish:   server.Publish,
		Topics:    s.topics,
		Dir:       d.files.incoming,
		MaxFile:   s.config.VFS.MaxFile,
		MaxChunk:  min(256<<10, s.config.Limits.Payload),
		Log:       s.log,
	})
	take := func(p *broker.Publication) {
		door.Take(&transfer.Publication{Principal: p.Client.Principal(), Topic: p.Topic, Payload: p.Payload})
	}
	server.Handle(s.topics.VFS("+", "put/#"), take)
	server.Handle(s.topics.VFS("+", "get/#"), take)
	return door
}
