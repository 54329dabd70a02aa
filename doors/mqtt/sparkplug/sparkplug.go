// Package sparkplug makes the broker a Sparkplug Aware MQTT Server, as chapter 10 of
// Sparkplug 3.0 has it: it keeps the newest birth certificate of every edge node and
// device for later subscribers, and stamps death certificates with the time of their
// delivery. https://github.com/eclipse-sparkplug/sparkplug/tree/master/specification
package sparkplug

import (
	"encoding/binary"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// Topics of Sparkplug B.
const (
	NodeBirths   = "spBv1.0/+/NBIRTH/+"
	DeviceBirths = "spBv1.0/+/DBIRTH/+/+"
	NodeDeaths   = "spBv1.0/+/NDEATH/+"
	// Certificates begins the topics under which birth certificates are kept.
	Certificates = "$sparkplug/certificates/"
)

// most bounds the certificates of a space.
const most = 10_000

// A Server is the broker.
type Server interface {
	Inspect(filter string, by broker.Inspector)
	Publish(to protocol.Recipients, m protocol.Message) (receivers int, err error)
	Retained(filter string) iter.Seq2[string, protocol.SpaceID]
}

// Attend makes a server aware of Sparkplug. Call it before the server serves.
func Attend(server Server, log *slog.Logger) {
	k := &keeper{server: server, log: log, known: map[protocol.SpaceID]map[string]bool{}, now: time.Now}
	for topic, space := range server.Retained(Certificates + "#") {
		k.room(space, strings.TrimPrefix(topic, Certificates))
	}
	server.Inspect(NodeBirths, k.birth)
	server.Inspect(DeviceBirths, k.birth)
	server.Inspect(NodeDeaths, k.death)
}

// A keeper keeps certificates.
type keeper struct {
	server Server
	log    *slog.Logger
	now    func() time.Time

	mu    sync.Mutex
	known map[protocol.SpaceID]map[string]bool // topics with a certificate
}

// birth keeps a birth certificate: tck-id-conformance-mqtt-aware-store,
// -nbirth-mqtt-topic, -nbirth-mqtt-retain, -dbirth-mqtt-topic, -dbirth-mqtt-retain.
func (k *keeper) birth(i *broker.Inspection) broker.Verdict {
	space := i.Client.Principal().Home()
	if !k.room(space, i.Topic) {
		k.log.Warn("a Sparkplug birth certificate is not kept: the space has too many", "space", space, "topic", i.Topic)
		return broker.Verdict{}
	}
	m := protocol.Message{Topic: Certificates + i.Topic, Payload: i.Payload, Retain: true}
	if _, err := k.server.Publish(protocol.Everybody(space), m); err != nil {
		k.log.Warn("a Sparkplug birth certificate is not kept", "topic", i.Topic, "error", err)
	}
	return broker.Verdict{}
}

// room reports whether a certificate may be kept.
func (k *keeper) room(space protocol.SpaceID, topic string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	topics := k.known[space]
	if topics == nil {
		topics = map[string]bool{}
		k.known[space] = topics
	}
	if !topics[topic] && len(topics) >= most {
		return false
	}
	topics[topic] = true
	return true
}

// death gives a death certificate the time: tck-id-conformance-mqtt-aware-ndeath-timestamp.
func (k *keeper) death(i *broker.Inspection) broker.Verdict {
	if stamped, ok := restamp(i.Payload, k.now()); ok {
		i.Replace(stamped)
	}
	return broker.Verdict{}
}

// Kinds of fields of protobuf that payloads may have
// (https://protobuf.dev/programming-guides/encoding/).
const (
	varint = 0
	fixed8 = 1
	length = 2
	fixed4 = 5
)

// timestampField is the tag of org.eclipse.tahu.protobuf.Payload.timestamp.
const timestampField = 1<<3 | varint

// restamp is a Sparkplug payload with another timestamp, in milliseconds of Unix
// time. ok is false for a payload that is no protobuf: it stays as it is.
func restamp(payload []byte, at time.Time) (stamped []byte, ok bool) {
	stamped = binary.AppendUvarint([]byte{timestampField}, uint64(at.UnixMilli()))
	for rest := payload; len(rest) > 0; {
		tag, n := binary.Uvarint(rest)
		size, good := fieldSize(tag, rest, n)
		if !good {
			return nil, false
		}
		if tag != timestampField {
			stamped = append(stamped, rest[:size]...)
		}
		rest = rest[size:]
	}
	return stamped, true
}

// fieldSize is the size of the field that begins with a tag of n bytes.
func fieldSize(tag uint64, b []byte, n int) (size int, ok bool) {
	if n <= 0 || tag>>3 == 0 {
		return 0, false
	}
	switch tag & 7 {
	case varint:
		_, more := binary.Uvarint(b[n:])
		return n + more, more > 0
	case fixed8:
		size = n + 8
	case fixed4:
		size = n + 4
	case length:
		size64, more := binary.Uvarint(b[n:])
		if more <= 0 || size64 > uint64(len(b)) {
			return 0, false
		}
		size = n + more + int(size64)
	default:
		return 0, false
	}
	return size, size <= len(b)
}
