package protocol

import "time"

// A Message is one MQTT application message, in either direction.
type Message struct {
	Topic   string
	Payload []byte // empty and retained: removes the retained message
	QoS     byte   // 0, 1 or 2
	Retain  bool

	// View says that the message is made of what every bridge of a cluster sees:
	// each tells its own clients.
	View bool

	// The rest are MQTT 5 properties; zero values are left out on the wire
	// and 3.1.1 clients never see them.
	Expiry          time.Duration // time left, rounded up to seconds; 0 means none
	ContentType     string
	ResponseTopic   string
	CorrelationData []byte
	UserProperties  []UserProperty
}

// A UserProperty is one MQTT 5 user property. Order and repeats are kept.
type UserProperty struct{ Key, Value string }

// Property returns the value of the first user property with the key, or "".
func (m *Message) Property(key string) string {
	for _, p := range m.UserProperties {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

// ContentJSON is the content type of the bridge's own messages.
const ContentJSON = "application/json"

// TraceparentProperty is the user property with the W3C trace context of a message.
const TraceparentProperty = "traceparent"
