// Package broker is the project's own MQTT 5.0 and 3.1.1 server.
//
// # How a message travels
//
// Connections are read by turns. A turn reads what its sockets hold into one
// buffer, parses packets in place, routes them and at its end writes to every
// connection it has something for, once each, without ever blocking. A connection
// whose own reader is in a turn is left to that, so that readers do not wait for each
// other's writes. On Linux
// plain TCP connections share a few readers that wait with epoll and take many
// connections in one turn (reactor_linux.go), new ones included
// (accept_linux.go). Between turns a reader sleeps, polls, or is parked
// (poll_linux.go, wait_linux.go). A connection over TLS or WebSocket has a goroutine while hands
// are shaken, then a reader drives it through memory (secure.go, websocket.go,
// secure_linux.go). Other systems have a goroutine per connection, whose turn is one
// read (stream.go).
//
// A topic's receivers are looked up in the turn's own cache, which is thrown
// away when the subscription epoch moves (route.go). A QoS 0 message that goes
// out as it came in is not copied at all: the outbox of each receiver refers
// to the read buffer until the turn ends (outbox.go). What a full socket does
// not take is then copied, and written when the socket is ready again.
//
// A handler may tell that the client is about to be sent more, as a caller is. Then
// the acknowledgement of its QoS 1 publication waits for that, and both leave with one
// system call: a millisecond or two at most, or 16 while the reader always has something
// to do, since what it waits for is behind that (ride.go).
//
// # Locks
//
// session.mu guards what belongs to an MQTT session, conn.mu the outbox of a
// connection, Broker.mu the tables. They are taken in this order: session,
// index or retained, Broker, conn, and last that of a reader's list. No lock is held while foreign code runs.
package broker
