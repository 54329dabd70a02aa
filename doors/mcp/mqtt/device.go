package mqtt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/protocol"
)

// Bounds of announcements.
const (
	maxNote      = 64 << 10 // bytes
	maxInstances = 16       // clients of one server
)

// onlineMethod is the method of the notification by which a server announces itself.
const onlineMethod = "notifications/server/online"

// A deviceID names a device: its tools have the name, in the space.
type deviceID struct {
	space protocol.SpaceID
	name  string
}

// A device is a server that has announced itself. Several clients of one principal may
// serve it, of which the bridge uses one at a time. t.mu guards the variable fields.
type device struct {
	topics     *Topics
	id         deviceID
	serverName string
	owner      protocol.Party
	clients    []*broker.Client
	turn       int
	detach     func()
}

// announcement handles the announcement of a server, or an empty one, which ends its
// service. Other clients get it as well.
func (t *Topics) announcement(p *broker.Publication) {
	at, ok := parse(p.Topic)
	if !ok {
		return
	}
	if len(p.Payload) == 0 {
		t.withdraw(p.Client, at.name)
		return
	}
	refuse := func(v broker.Verdict) {
		t.Log.Info("an MCP server's announcement is refused", "client", p.Client.ID, "space", p.Client.Principal().Home(), "server_name", at.name, "reason", v.Text)
		p.Take()(v)
	}
	if p.Absent { // nobody would take back what a client that is gone announces
		refuse(broker.NotAuthorized("a server announces itself while it is connected"))
		return
	}
	if !p.Retain {
		refuse(broker.NotAuthorized("the presence of a server must be retained"))
		return
	}
	if err := checkNote(p.Payload); err != nil {
		refuse(broker.Verdict{Reason: payloadInvalid, Text: err.Error()})
		return
	}
	if v := t.announce(p.Client, at.name); !v.Allowed() {
		refuse(v)
	}
}

// checkNote returns the fault of an announcement. Its data about the server is for
// other clients: the bridge asks the server itself.
func checkNote(text []byte) error {
	if len(text) > maxNote {
		return fmt.Errorf("an announcement may have %d bytes", maxNote)
	}
	var note struct {
		Version string          `json:"jsonrpc"`
		Method  string          `json:"method"`
		ID      json.RawMessage `json:"id"`
		Params  map[string]any  `json:"params"`
	}
	switch err := json.Unmarshal(text, &note); {
	case err != nil:
		return errors.New("an announcement is a JSON-RPC notification, whose params are an object")
	case note.Version != "2.0" || note.ID != nil:
		return errors.New("an announcement is a notification of JSON-RPC 2.0")
	case note.Method != onlineMethod:
		return errors.New("the method of an announcement is " + onlineMethod)
	}
	return nil
}

// announce has a client be a server of that name.
func (t *Topics) announce(c *broker.Client, serverName string) broker.Verdict {
	owner := c.Principal().Party()
	id := deviceID{owner.Space, toolsName(serverName)}
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.devices[id]
	switch {
	case d == nil:
		d = &device{topics: t, id: id, serverName: serverName, owner: owner, clients: []*broker.Client{c}}
		if v := t.attach(d); !v.Allowed() {
			return v
		}
		t.devices[id] = d
		return broker.Verdict{}
	case d.owner != owner || d.serverName != serverName:
		return broker.NotAuthorized(fmt.Sprintf("the name %q is taken", id.name))
	case slices.Contains(d.clients, c):
		return broker.Verdict{}
	case len(d.clients) == maxInstances:
		return broker.Verdict{Reason: quotaExceeded, Text: fmt.Sprintf("at most %d clients are the same server", maxInstances)}
	}
	d.clients = append(d.clients, c)
	return broker.Verdict{}
}

// attach has a device used. t.mu is held.
func (t *Topics) attach(d *device) broker.Verdict {
	var err error
	d.detach, err = t.Servers.Attach(servers.Device{Name: d.id.name, Owner: d.owner, Way: d, Clients: d.ids})
	switch protocol.CodeOf(err) {
	case "":
		return broker.Verdict{}
	case protocol.InvalidParameter:
		return broker.Verdict{Reason: topicNameInvalid, Text: fmt.Sprintf("the server-name makes no name of up to 32 letters, digits, - and _: %.64q", d.id.name)}
	case protocol.AlreadyExists:
		return broker.NotAuthorized(protocol.AsError(err).Message)
	}
	return broker.Verdict{Reason: quotaExceeded, Text: protocol.AsError(err).Message}
}

// ids are the client ids of the device.
func (d *device) ids() []string {
	d.topics.mu.Lock()
	defer d.topics.mu.Unlock()
	ids := make([]string, 0, len(d.clients))
	for _, c := range d.clients {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	return ids
}

// withdraw has a client be a server no more: of that server-name, or of any with "".
func (t *Topics) withdraw(c *broker.Client, serverName string) {
	t.mu.Lock()
	var ended []*talk
	for id, d := range t.devices {
		at := slices.Index(d.clients, c)
		if at < 0 || serverName != "" && serverName != d.serverName {
			continue
		}
		if d.clients = slices.Delete(d.clients, at, at+1); len(d.clients) == 0 {
			delete(t.devices, id)
			d.detach()
		}
		for _, k := range t.talks {
			if k.of == d && k.with == c {
				ended = append(ended, k)
			}
		}
	}
	t.mu.Unlock()
	for _, k := range ended {
		k.hangUp()
	}
}

var errGone = errors.New("the device is gone")

// Connect implements [sdk.Transport]: it begins a session with the next of the clients.
func (d *device) Connect(context.Context) (sdk.Connection, error) {
	d.topics.mu.Lock()
	defer d.topics.mu.Unlock()
	if len(d.clients) == 0 {
		return nil, errGone
	}
	d.turn++
	k := newTalk(d, d.clients[d.turn%len(d.clients)])
	d.topics.talks[k.id] = k
	return k, nil
}

// change handles the notification of a server's change. Other clients get it as well.
func (t *Topics) change(p *broker.Publication) {
	at, ok := parse(p.Topic)
	if !ok {
		return
	}
	t.mu.Lock()
	var told []*talk
	for _, k := range t.talks {
		if k.with == p.Client && k.at.name == at.name {
			told = append(told, k)
		}
	}
	t.mu.Unlock()
	for _, k := range told {
		if v := k.hearChange(p.Payload); !v.Allowed() {
			p.Take()(v)
			return
		}
	}
}
