package queue

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/internal/fair"
	"github.com/aibridge/aibridge/protocol"
)

// A Message is the record of a message that waits in a queue, or that a worker has and
// has not acknowledged.
type Message struct {
	Queue string           `json:"queue"`
	Space protocol.SpaceID `json:"space"`
	At    int64            `json:"at"`              // nanoseconds of Unix time: the place in the queue
	Until int64            `json:"until"`           // nanoseconds of Unix time: it is dropped then
	By    string           `json:"by,omitempty"`    // its publisher as a text, "" in records of earlier releases
	With  string           `json:"with,omitempty"`  // the process of the bridge whose client has it, where several bridges work
	Tries int              `json:"tries,omitempty"` // workers that had it and have not acknowledged it; counted where deliveries are bounded
	Dead  string           `json:"dead,omitempty"`  // the reason for which it is a dead letter
	Came  int64            `json:"came,omitempty"`  // nanoseconds of Unix time at which it was published, once it is or was a dead letter

	Topic     string                  `json:"topic"`
	Payload   []byte                  `json:"payload,omitempty"`
	Expires   int64                   `json:"expires,omitempty"` // nanoseconds of Unix time, by Message Expiry; 0 never
	Type      string                  `json:"type,omitempty"`
	Respond   string                  `json:"respond,omitempty"`
	Correlate []byte                  `json:"correlate,omitempty"`
	User      []protocol.UserProperty `json:"user,omitempty"`
}

// messageOf is the record of a publication.
func messageOf(q *Queue, p *broker.Publication, now time.Time) *Message {
	m := &Message{
		Queue: q.Name, Space: p.Client.Principal().Home(), By: p.Client.Principal().Party().String(), At: now.UnixNano(), Until: now.Add(q.life()).UnixNano(),
		Topic: p.Topic, Payload: bytes.Clone(p.Payload), Type: p.ContentType, Respond: p.ResponseTopic,
		Correlate: bytes.Clone(p.CorrelationData), User: slices.Clone(p.UserProperties),
	}
	if p.Expiry > 0 {
		m.Expires = now.Add(p.Expiry).UnixNano()
	}
	return m
}

// came is the time at which the message was published, in nanoseconds of Unix time. At is
// another one once it has died, or was put back.
func (m *Message) came() int64 { return cmp.Or(m.Came, m.At) }

// party is the party whose room the message takes.
func (m *Message) party() fair.Party { return partyOf(m.By, m.Space) }

func partyOf(by string, space protocol.SpaceID) fair.Party {
	return fair.Party{Principal: by, Space: string(space)}
}

// size is the number of bytes that a message counts for.
func (m *Message) size() int {
	n := len(m.Topic) + len(m.Payload) + len(m.Type) + len(m.Respond) + len(m.Correlate)
	for _, u := range m.User {
		n += len(u.Key) + len(u.Value)
	}
	return n
}

// packet is the size of the PUBLISH that a worker of MQTT 5 gets, with the identifier of
// its subscription, in bytes.
func (m *Message) packet() int {
	out := m.message(time.Unix(0, m.At))
	const identifier = 1 + 4
	props := identifier
	for _, n := range []int{len(out.ContentType), len(out.ResponseTopic), len(out.CorrelationData)} {
		if n > 0 {
			props += 1 + 2 + n
		}
	}
	if out.Expiry > 0 {
		props += 1 + 4
	}
	for _, u := range out.UserProperties {
		props += 1 + 2 + len(u.Key) + 2 + len(u.Value)
	}
	body := 2 + len(out.Topic) + 2 + packet.VarintLen(props) + props + len(out.Payload)
	return 1 + packet.VarintLen(body) + body
}

// over reports whether the message is dropped by now.
func (m *Message) over(now time.Time) bool {
	return m.Until <= now.UnixNano() || m.Expires != 0 && m.Expires <= now.UnixNano()
}

// held is the record with the name of the process that has the message, "" for none.
func (m *Message) held(by string) *Message {
	own := *m
	own.With = by
	return &own
}

// message is what a worker gets.
func (m *Message) message(now time.Time) protocol.Message {
	out := protocol.Message{
		Topic: m.Topic, Payload: m.Payload, QoS: 1, ContentType: m.Type, ResponseTopic: m.Respond,
		CorrelationData: m.Correlate, UserProperties: m.told(),
	}
	if m.Expires != 0 {
		out.Expiry = time.Duration(m.Expires - now.UnixNano())
	}
	return out
}

// User properties by which workers are told of a message, as RabbitMQ names its headers.
const (
	countProperty  = "x-delivery-count"
	queueProperty  = "x-first-death-queue"
	reasonProperty = "x-first-death-reason"
)

// told are the user properties of a message, with what the queue tells of it in place of
// what a publisher might have said.
func (m *Message) told() []protocol.UserProperty {
	user := slices.DeleteFunc(slices.Clone(m.User), func(u protocol.UserProperty) bool {
		return u.Key == countProperty || u.Key == queueProperty || u.Key == reasonProperty
	})
	if m.Tries > 0 {
		user = append(user, protocol.UserProperty{Key: countProperty, Value: strconv.Itoa(m.Tries)})
	}
	if m.Dead != "" {
		user = append(user,
			protocol.UserProperty{Key: queueProperty, Value: strings.TrimSuffix(m.Queue, "/"+dead)},
			protocol.UserProperty{Key: reasonProperty, Value: m.Dead})
	}
	return user
}
