package broker

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
)

// written takes note of what is written.
type written struct{ writes [][]byte }

func (w *written) write(segs []seg, off int) (n int, err error) {
	var all []byte
	for _, s := range segs {
		all = append(all, s.b[off:]...)
		off = 0
	}
	w.writes = append(w.writes, all)
	return len(all), nil
}

func (w *written) passOn(*turn) bool { return false }
func (w *written) await()            {}
func (w *written) held() int         { return 0 }
func (w *written) full() bool        { return true }
func (w *written) shut()             {}
func (w *written) close()            {}
func (w *written) pause()            {}
func (w *written) resume()           {}

// riding is a turn of a reader, and a connection that is read in it.
func riding(t *testing.T) (*turn, *conn, *written) {
	out := new(written)
	turn := newTurn(newNode(t, -1).Broker)
	turn.rides = true
	return turn.begin(), &conn{b: turn.b, door: new(door), transport: out, version: packet.V5}, out
}

// acknowledges collects an acknowledgement that may wait.
func (t *turn) acknowledges(c *conn, id uint16) []byte {
	before := len(t.acks)
	t.acks = packet.AppendAck(t.acks, packet.V5, packet.PUBACK, id, packet.Success)
	t.patient += len(t.acks) - before
	ack := bytes.Clone(t.acks[before:])
	t.acknowledge(c)
	return ack
}

func TestAcknowledgementsLeaveWithTheNextPacket(t *testing.T) {
	turn, c, out := riding(t)
	first := turn.acknowledges(c, 1)
	turn.end()
	if len(out.writes) != 0 {
		t.Fatalf("%x is written alone", out.writes)
	}
	second := turn.acknowledges(c, 2)
	ping := []byte{0xD0, 0}
	c.add(turn, ping)
	turn.dismount()
	turn.end()
	if len(out.writes) != 1 || !bytes.Equal(out.writes[0], bytes.Join([][]byte{first, second, ping}, nil)) {
		t.Fatalf("%x", out.writes)
	}
	turn.idle += rideTime
	turn.dismount()
	turn.end()
	if len(out.writes) != 1 || len(turn.riders) != 0 || c.walks != 0 {
		t.Fatalf("%x is written, %d ride, %d walks", out.writes, len(turn.riders), c.walks)
	}
}

// TestAcknowledgementsDoNotWaitLong: a client that waits in vain is not kept
// waiting the next times.
func TestAcknowledgementsDoNotWaitLong(t *testing.T) {
	turn, c, out := riding(t)
	turn.acknowledges(c, 1)
	turn.dismount()
	turn.end()
	if len(out.writes) != 0 || len(turn.riders) != 1 {
		t.Fatalf("%x is written, %d ride", out.writes, len(turn.riders))
	}
	turn.now, turn.idle = turn.now+int64(rideTime), turn.idle+rideTime
	turn.dismount()
	turn.end()
	if len(out.writes) != 1 || len(turn.riders) != 0 {
		t.Fatalf("%x is written, %d ride", out.writes, len(turn.riders))
	}
	for i := range walks {
		turn.acknowledges(c, 2)
		turn.end()
		if len(out.writes) != i+2 {
			t.Fatalf("%x", out.writes)
		}
	}
	turn.acknowledges(c, 3)
	turn.end()
	if len(out.writes) != walks+1 {
		t.Fatalf("%x", out.writes)
	}
}

// TestAcknowledgementsOfABusyReaderWaitLonger: the packet is behind what the reader does.
func TestAcknowledgementsOfABusyReaderWaitLonger(t *testing.T) {
	turn, c, out := riding(t)
	later := func(d time.Duration) {
		turn.now += int64(d)
		turn.dismount()
		turn.end()
	}
	turn.acknowledges(c, 1)
	later(0)
	if later(longestRide - 1); len(out.writes) != 0 || len(turn.riders) != 1 {
		t.Fatalf("%x is written, %d ride", out.writes, len(turn.riders))
	}
	if later(1); len(out.writes) != 1 || len(turn.riders) != 0 || c.walks != walks {
		t.Fatalf("%x is written, %d ride, %d walks", out.writes, len(turn.riders), c.walks)
	}
}

// TestRidersThatHaveLeftAreForgotten: they are not looked after for longer than others.
func TestRidersThatHaveLeftAreForgotten(t *testing.T) {
	turn, c, _ := riding(t)
	for range 3 {
		turn.acknowledges(c, 1)
		turn.end()
		c.add(turn, []byte{0xD0, 0})
		turn.dismount()
		turn.end()
		turn.now++
	}
	if len(turn.riders) != 0 {
		t.Fatalf("%d ride", len(turn.riders))
	}
}

// TestManyAcknowledgementsDoNotWait: they would hold up who sends a lot.
func TestManyAcknowledgementsDoNotWait(t *testing.T) {
	turn, c, out := riding(t)
	for i := range uint16(mostRiding) {
		turn.acknowledges(c, i+1)
	}
	turn.end()
	if len(out.writes) != 1 {
		t.Fatalf("%x", out.writes)
	}
	before := len(turn.acks)
	for range mostRiding { // of one read
		turn.acks = packet.AppendAck(turn.acks, packet.V5, packet.PUBACK, 1, packet.Success)
	}
	turn.patient = len(turn.acks) - before
	turn.acknowledge(c)
	turn.end()
	if len(out.writes) != 2 {
		t.Fatalf("%x", out.writes)
	}
}

// TestOthersDoNotWait: what is acknowledged beside it goes at once.
func TestOthersDoNotWait(t *testing.T) {
	turn, c, out := riding(t)
	turn.acks = append(turn.acks, 0xD0, 0)
	turn.acknowledges(c, 1)
	turn.end()
	if len(out.writes) != 1 {
		t.Fatalf("%x", out.writes)
	}
}

// hearing is a node whose handler promises more to whoever publishes on "ask", and
// tells that it has.
func hearing(t *testing.T, change ...func(*Options)) (n *node, heard chan struct{}) {
	n, heard = newNode(t, 1, change...), make(chan struct{}, 100)
	n.Handle("ask", func(p *Publication) {
		p.HearsMore = true
		heard <- struct{}{}
	})
	return n, heard
}

func ask(id uint16) []byte {
	m := text("ask", "?")
	m.QoS, m.PacketID = 1, id
	return m.Append(nil, packet.V5)
}

// TestAcknowledgementsComeWithNothingElse: a client that sends no more than the
// server's Receive Maximum gets on, although there is nothing else to send it.
func TestAcknowledgementsComeWithNothingElse(t *testing.T) {
	n, _ := hearing(t, func(o *Options) { o.Limits.ReceiveMaximum = 2 })
	p := n.connect(packet.V5, "a")
	for range 50 {
		p.send(append(ask(1), ask(2)...))
		p.ack(packet.PUBACK, 1)
		p.ack(packet.PUBACK, 2)
	}
}

// TestAcknowledgementsComeBeforeTheEnd of a connection, whoever ends it.
func TestAcknowledgementsComeBeforeTheEnd(t *testing.T) {
	for name, end := range map[string]func(*node, *peer){
		"the client":            func(_ *node, p *peer) { p.send([]byte{0xE0, 0}) },
		"a broken client":       func(_ *node, p *peer) { p.send([]byte{0xF3, 0}) },
		"a client that is gone": func(_ *node, p *peer) { _ = p.nc.(*net.TCPConn).CloseWrite() },
		"another takes it":      func(n *node, _ *peer) { n.connect(packet.V5, "a") },
		"the bridge":            func(n *node, _ *peer) { n.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			n, heard := hearing(t)
			p := n.connect(packet.V5, "a")
			p.send(ask(7))
			<-heard
			end(n, p)
			p.ack(packet.PUBACK, 7)
			p.ended()
		})
	}
}
