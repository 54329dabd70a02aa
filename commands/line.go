package commands

// A Line is a connection that requests came over and that the bridge may send
// requests of its own on, as to an agent without MQTT. Lines are compared with
// ==. The methods do not block.
type Line interface {
	// Attend has everything that comes over the connection from now on shown to
	// who attends to it, and its end told. It reports false if the connection
	// has ended.
	Attend() bool
	// Send queues a message. It reports false if the connection has ended or its
	// reader is too slow: the message is not sent then.
	Send(message []byte) bool
}
