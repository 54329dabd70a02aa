package mqtt

import (
	"encoding/json"

	"github.com/aibridge/aibridge/broker"
	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/protocol"
)

// A session is the session of a client with the bridge. A client has one at a time.
type session struct {
	client *broker.Client
	*mcpdoor.Conversation
}

// serves reports whether a place is of the bridge as a server.
func (t *Topics) serves(p *place) bool {
	return t.Door != nil && p.server == ServerID && p.name == t.ServerName
}

// call handles a client's message on the control topic of the bridge: the request for a
// session.
func (t *Topics) call(p *broker.Publication) {
	at, ok := parse(p.Topic)
	if !ok || at.family != control || at.server != ServerID {
		return
	}
	settle := p.Take()
	switch {
	case p.Absent: // nobody would end the session of a client that is gone
		settle(broker.NotAuthorized("a session is begun by a client that is connected"))
	case !t.serves(&at):
		settle(broker.NotAuthorized("the bridge is no server of that name"))
	case methodOf(p.Payload) != "initialize":
		settle(broker.Verdict{Reason: payloadInvalid, Text: "a session begins with initialize"})
	case t.Context.Err() != nil:
		settle(broker.Verdict{Reason: quotaExceeded, Text: "the bridge is shutting down"})
	default:
		settle(t.open(p.Client, p.Payload))
	}
}

// open begins a session in place of the one that the client has.
func (t *Topics) open(c *broker.Client, hello []byte) broker.Verdict {
	t.close(c)
	s := &session{client: c}
	at := place{family: rpc, client: c.ID, server: ServerID, name: t.ServerName}
	send := func(at place) func(body []byte) {
		topic := at.topic()
		return func(body []byte) {
			if _, err := t.Publish(protocol.Only(c.Principal().Party()), messageTo(topic, isServer, ServerID, body)); err != nil {
				t.Log.Warn("a message to an MCP client is not published", "topic", topic, "error", err)
			}
		}
	}
	var err error
	s.Conversation, err = t.Door.Converse(t.Context, mcpdoor.Client{
		Principal: c.Principal, Reply: send(at), Tell: send(place{family: capability, server: ServerID, name: t.ServerName}),
		Ended: func() { t.forget(s) },
	})
	if err != nil {
		send(at)(mcpdoor.Refusal(hello, protocol.AsError(err)))
		return broker.Verdict{}
	}
	t.mu.Lock()
	t.sessions[c] = s
	t.mu.Unlock()
	return t.hear(s, hello)
}

// hear passes a message of a client on.
func (t *Topics) hear(s *session, body []byte) broker.Verdict {
	if !s.Take(body) {
		return broker.Verdict{Reason: payloadInvalid, Text: "the message is none of JSON-RPC 2.0"}
	}
	return broker.Verdict{}
}

// heard handles a message for the bridge on an RPC topic.
func (t *Topics) heard(c *broker.Client, at *place, body []byte) broker.Verdict {
	t.mu.Lock()
	s := t.sessions[c]
	t.mu.Unlock()
	switch {
	case !t.serves(at):
		return broker.NotAuthorized("the bridge is no server of that name")
	case methodOf(body) == disconnectedMethod:
		t.close(c)
		return broker.Verdict{}
	case s == nil: // as after a restart
		if _, err := t.Publish(protocol.Only(c.Principal().Party()), messageTo(at.topic(), isServer, ServerID, []byte(disconnected))); err != nil {
			t.Log.Warn("a message to an MCP client is not published", "topic", at.topic(), "error", err)
		}
		return broker.NotAuthorized("there is no session: initialize begins one")
	}
	return t.hear(s, body)
}

// parted handles the presence message of a client, which ends its session.
func (t *Topics) parted(p *broker.Publication) { t.close(p.Client) }

// close ends the session of a client, if it has one.
func (t *Topics) close(c *broker.Client) {
	t.mu.Lock()
	s := t.sessions[c]
	t.mu.Unlock()
	if s != nil {
		_ = s.Close()
	}
}

// forget forgets a session that has ended.
func (t *Topics) forget(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions[s.client] == s {
		delete(t.sessions, s.client)
	}
}

// methodOf is the method of a message, "" if it has none.
func methodOf(body []byte) string {
	var m struct {
		Method string `json:"method"`
	}
	_ = json.Unmarshal(body, &m) // an unreadable message has no method
	return m.Method
}

// visits shows the presence of the bridge in the space of a client.
func (t *Topics) visits(c *broker.Client) {
	if t.Door == nil {
		return
	}
	space := c.Principal().Home()
	t.mu.Lock()
	shown := t.shown[space]
	t.shown[space] = true
	t.mu.Unlock()
	if shown {
		return
	}
	note, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": onlineMethod, "params": map[string]any{"server_name": t.ServerName, "description": description}})
	if err != nil {
		return // it is made of texts
	}
	m := messageTo(place{family: presence, server: ServerID, name: t.ServerName}.topic(), isServer, ServerID, note)
	m.Retain, m.View, m.Expiry = true, true, 0
	if _, err := t.Publish(protocol.Everybody(space), m); err != nil {
		t.Log.Warn("the bridge is not shown as an MCP server", "space", space, "error", err)
	}
}

// description is the text of the bridge about itself for clients that look for servers.
const description = "AI Bridge: the devices, skills and commands that you may use, as tools"
