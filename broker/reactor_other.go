//go:build !linux

package broker

import "net"

// readers do not exist here: every connection has a goroutine.
type readers struct{}

func (readers) start(*Broker, int) error       { return nil }
func (readers) stop()                          {}
func (readers) adopt(*conn, *net.TCPConn) bool { return false }
