package commands

// A Line is a connection that requests came over and that the bridge may send
// requests of its own on, as to an agent without MQTT. Lines are compared with
// ==. The methods do not block.
type Line interface {
	// Attend has every later message of the connection, and its end, passed to the
	// attendant of lines. It reports false if the connection has ended.
	Attend() bool
	// Send queues a message. It reports false if the connection has ended or its
	// reader is too slow: the message is not sent then.
	Send(message []byte) bool
}
