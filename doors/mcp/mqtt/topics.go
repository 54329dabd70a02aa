package mqtt

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/protocol"
)

// User properties of all that is published.
const (
	componentProperty = "MCP-COMPONENT-TYPE"
	clientProperty    = "MCP-MQTT-CLIENT-ID"

	isClient = "mcp-client"
	isServer = "mcp-server"
)

// Reason codes of MQTT 5.
const (
	topicNameInvalid = 0x90
	quotaExceeded    = 0x97
	payloadInvalid   = 0x99
)

// expiry is the message expiry: no request waits longer for its answer.
const expiry = time.Minute

// Options configure [Topics]. Publish and Log are needed.
type Options struct {
	// Servers uses devices that announce themselves; nil uses none.
	Servers *servers.Service
	// Door answers clients that use the bridge as their server, under ServerName; nil
	// answers none. Context ends their sessions.
	Door       *mcpdoor.Door
	ServerName string
	Context    context.Context
	// Publish sends a message of the bridge.
	Publish func(protocol.Recipients, protocol.Message) (receivers int, err error)
	Log     *slog.Logger
}

// Topics serve the topics of the transport.
type Topics struct {
	Options

	mu       sync.Mutex
	devices  map[deviceID]*device
	talks    map[string]*talk            // by mcp-client-id of the bridge
	sessions map[*broker.Client]*session // of clients with the bridge
	shown    map[protocol.SpaceID]bool   // spaces that have the bridge's presence
}

// Open has the broker hand in messages on the topics. Call it before
// [broker.Broker.Serve].
func Open(o Options, handle func(filter string, fn func(*broker.Publication))) *Topics {
	t := &Topics{
		Options: o, devices: make(map[deviceID]*device), talks: make(map[string]*talk),
		sessions: make(map[*broker.Client]*session), shown: make(map[protocol.SpaceID]bool),
	}
	handle(string(rpc)+"#", t.message)
	handle(string(control)+"+/#", t.call)
	handle(string(clientPresence)+"+", t.parted)
	if o.Servers != nil {
		handle(string(presence)+"#", t.announcement)
		handle(string(capability)+"#", t.change)
	}
	return t
}

// Connected implements [doors/mqtt.Topics].
func (t *Topics) Connected(*broker.Client) {}

// Disconnected ends the session and the device of a disconnected client.
func (t *Topics) Disconnected(c *broker.Client) {
	t.withdraw(c, "")
	t.close(c)
}

// message takes a message on an RPC topic, if it is for the bridge.
func (t *Topics) message(p *broker.Publication) {
	at, ok := parse(p.Topic)
	if !ok {
		return
	}
	if at.server == ServerID {
		p.Take()(t.heard(p.Client, &at, p.Payload))
		return
	}
	t.mu.Lock()
	k := t.talks[at.client]
	t.mu.Unlock()
	if k == nil {
		return
	}
	settle := p.Take()
	if k.with != p.Client || k.at.name != at.name {
		settle(broker.NotAuthorized("the session is another client's"))
		return
	}
	settle(k.hear(p.Payload))
}

// messageTo is a message of the bridge as a client of MCP or as a server.
func messageTo(topic, component, id string, payload []byte) protocol.Message {
	return protocol.Message{
		Topic: topic, QoS: 1, Payload: payload, ContentType: protocol.ContentJSON, Expiry: expiry,
		UserProperties: []protocol.UserProperty{{Key: componentProperty, Value: component}, {Key: clientProperty, Value: id}},
	}
}
