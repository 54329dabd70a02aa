package mqtt

import (
	"strings"

	"github.com/aibridge/aibridge/broker"
)

// MayPublish is the verdict on a publication of a client on a topic of the transport,
// beside policy: a client acts for itself alone.
func (t *Topics) MayPublish(c *broker.Client, topic string, retain bool) broker.Verdict {
	p, ok := parse(topic)
	switch {
	case !ok:
		return broker.NotAuthorized("no such topic of MCP over MQTT")
	case retain && p.family != presence:
		return broker.NotAuthorized("only the presence of servers is retained")
	case p.server == ServerID && (p.family == presence || p.family == capability):
		return broker.NotAuthorized("the server is the bridge")
	case p.speaker(c.ID):
		return broker.Verdict{}
	}
	return broker.NotAuthorized("the topic has another client id than yours")
}

// speaker reports whether a client of that id may speak on a topic.
func (p *place) speaker(id string) bool {
	switch p.family {
	case presence, capability:
		return p.server == id
	case clientPresence, clientCapability:
		return p.client == id
	case rpc:
		return p.client == id || p.server == id && p.server != ServerID
	}
	return true // every client may request a session of a server
}

// MaySubscribe is the verdict on a subscription of a client to a filter of the
// transport: announcements of servers and clients are for all clients of the space,
// other messages for their recipients alone.
func (t *Topics) MaySubscribe(c *broker.Client, filter string) broker.Verdict {
	defer t.visits(c)
	for _, open := range []family{presence, capability, clientPresence, clientCapability} {
		if strings.HasPrefix(filter, string(open)) {
			return broker.Verdict{}
		}
	}
	p, ok := parse(filter)
	switch {
	case !ok:
		return broker.NotAuthorized("no such filter of MCP over MQTT, or it reaches further than you may")
	case c.ID == "+":
	case p.server == c.ID && c.ID != ServerID, p.family == rpc && p.client == c.ID:
		return broker.Verdict{}
	}
	return broker.NotAuthorized("the filter has another client id than yours")
}
