package session

import (
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Trace holds headlines of the packets of a client.
type Trace struct {
	Ends   time.Time
	Missed uint64
	Lines  []Headline
}

// A Headline tells of one packet what it is and what it is about. It has no
// payload, no property and no credential.
type Headline struct {
	N        uint64   `json:"n" doc:"number of the packet in the trace, from 1"`
	At       int64    `json:"at" doc:"time, Unix milliseconds"`
	From     Side     `json:"from" enum:"client,bridge" doc:"sender"`
	Type     string   `json:"type" doc:"type of the packet as MQTT names it, such as PUBLISH"`
	Size     int      `json:"size" doc:"bytes of the whole packet; 0 for CONNECT, which is noted when it has been accepted"`
	PacketID uint16   `json:"packet_id,omitempty" doc:"its identifier; absent where it has none"`
	Topic    string   `json:"topic,omitempty" doc:"topic of a PUBLISH, the first 256 bytes, also where the packet has an alias in its place"`
	QoS      byte     `json:"qos,omitempty" doc:"QoS of a PUBLISH; absent for 0"`
	Retain   bool     `json:"retain,omitempty" doc:"a PUBLISH that is retained, or was"`
	Dup      bool     `json:"dup,omitempty" doc:"a PUBLISH that may have been sent before"`
	Filters  []string `json:"filters,omitempty" doc:"filters of SUBSCRIBE and UNSUBSCRIBE, the first eight"`
	Reasons  []string `json:"reasons,omitempty" doc:"text of an answer or a DISCONNECT, for the first eight filters where it is about several"`
}

// A Side is one of the two who send packets.
type Side string

// The two sides of a connection.
const (
	FromClient Side = "client"
	FromBridge Side = "bridge"
)

func notTraced(clientID string) error {
	return protocol.Errorf(protocol.NotFound, "client %q is not traced", clientID).With("client_id", clientID)
}
