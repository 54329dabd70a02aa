//go:build !linux

package broker

import (
	"context"
	"net"
)

// readers do not exist here: every connection has a goroutine.
type readers struct{}

func (readers) start(*Broker, int) error { return nil }
func (readers) stop()                    {}

func (readers) accept(context.Context, *Broker, *door, *net.TCPListener) bool { return false }

func (readers) adopt(*conn, net.Conn, layer) bool { return false }
