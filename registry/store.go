package registry

import (
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Publisher sends MQTT messages of the bridge's own.
type Publisher interface {
	// Publish sends a message to those of the recipients who listen, and tells
	// how many connected clients get it.
	Publish(to protocol.Recipients, topic string, payload []byte, o PublishOptions) (receivers int, err error)
}

// PublishOptions are how a message is sent. The zero value is QoS 0.
type PublishOptions struct {
	QoS    byte
	Retain bool

	Expiry          time.Duration // 0: none
	ContentType     string
	ResponseTopic   string
	CorrelationData []byte
	UserProperties  [][2]string // in order
}
