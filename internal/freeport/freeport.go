// Package freeport finds addresses for tests that start programs.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports lie below those that the system gives away: a program that is killed and
// started again finds its port free, and no client that calls it meanwhile is connected
// to itself. A process takes them from blocks of its own, which it holds until it ends.
const (
	lowest    = 10_000
	blockSize = 100
	blocks    = 200
)

// A block is a run of ports, of which this process has given out so many. A socket over
// UDP at the first of them tells other processes that it is taken.
type block struct {
	mark         net.PacketConn // held until the process ends
	first, given int
}

var (
	mu    sync.Mutex
	taken []*block // the last one gives out ports
)

// mark opens the socket that says that a block is taken.
var mark = func(address string) (net.PacketConn, error) { return net.ListenPacket("udp", address) }

// Address is an address of this machine, as HOST:PORT, at which nobody listens and which
// no other test is given that asks here, in this process or another, until this one
// ends.
func Address() string {
	mu.Lock()
	defer mu.Unlock()
	for {
		address := addressOf(next())
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
}

// Addresses are n such addresses.
func Addresses(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = Address()
	}
	return all
}

// next is the next port of a block of this process; if others have all blocks, any port.
func next() int {
	if n := len(taken); n == 0 || taken[n-1].given == blockSize {
		b := take()
		if b == nil {
			return lowest + rand.IntN(blocks*blockSize)
		}
		taken = append(taken, b)
	}
	b := taken[len(taken)-1]
	b.given++
	return b.first + b.given - 1
}

// take takes a block that no process has, and returns nil if there is none.
func take() *block {
	for _, i := range rand.Perm(blocks) {
		first := lowest + i*blockSize
		if m, err := mark(addressOf(first)); err == nil {
			return &block{mark: m, first: first}
		}
	}
	return nil
}

func addressOf(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
