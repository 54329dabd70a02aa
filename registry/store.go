package registry

import "github.com/aibridge/aibridge/protocol"

// A Publisher sends MQTT messages of the bridge's own.
type Publisher interface {
	// Publish sends a message to those of the recipients who listen, and tells
	// how many connected clients get it. It keeps nothing of the message.
	Publish(to protocol.Recipients, m protocol.Message) (receivers int, err error)
}
