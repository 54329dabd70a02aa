package broker

import "github.com/aibridge/aibridge/broker/packet"

// An Inspection is a message that a client is about to publish. It is valid only
// until the inspector returns.
type Inspection struct {
	Client  *Client
	Topic   string
	Payload []byte

	tags    packet.Properties
	changed bool // the payload is another
}

// Tag adds a user property to the message.
func (i *Inspection) Tag(key, value string) { i.tags.AddUser([]byte(key), []byte(value)) }

// Replace gives the message another payload, which must stay as it is.
func (i *Inspection) Replace(payload []byte) { i.Payload, i.changed = payload, true }

// An Inspector judges messages before anybody hears of them.
type Inspector func(*Inspection) Verdict

// Inspect adds an inspector for all messages of clients on topics that the filter
// covers, Wills included, once they are permitted and before they are handled,
// retained or delivered. A verdict that refuses is told to the publisher like any
// other. Call it before [Broker.Serve]. The inspector is called by the reader of the
// client's connection and must not block. Messages of the bridge itself are not
// inspected.
func (b *Broker) Inspect(filter string, by Inspector) { b.index.inspect(filter, by) }

func (x *index) inspect(filter string, by Inspector) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.interest(filter)
	inside := in.insiders()
	inside.inspectors = append(inside.inspectors, by)
	x.epoch.Add(1)
}

// inspect shows the turn's message to inspectors, and takes over their changes.
func (t *turn) inspect(client *Client, inspectors []Inspector) Verdict {
	i := Inspection{Client: client, Topic: t.msg.topic, Payload: t.msg.payload}
	for _, by := range inspectors {
		if v := by(&i); !v.Allowed() {
			return v
		}
	}
	if !i.changed && i.tags.Empty() {
		return Verdict{}
	}
	t.raw = nil // it does not go out as it came in
	t.msg.payload = i.Payload
	if !i.tags.Empty() {
		t.msg.props, t.read = i.tags.Append(append([]byte(nil), t.msg.props...)), nil
	}
	return Verdict{}
}
