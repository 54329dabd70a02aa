package broker

import (
	"bytes"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
)

// TestAcknowledgementsThatNeedNotWaitAnyMoreAreSent has acknowledgements kept
// behind others that leave in the same moment: nothing else is to be stored that
// would have them sent.
func TestAcknowledgementsThatNeedNotWaitAnyMoreAreSent(t *testing.T) {
	out := new(written)
	turn := newTurn(newNode(t, -1, func(o *Options) { o.Journal = &MemoryJournal{} }).Broker).begin()
	c := &conn{b: turn.b, door: new(door), transport: out, version: packet.V5}
	var want []byte
	for id := range uint16(3) {
		turn.owe(c, pendingAck{typ: packet.PUBACK, id: id + 1})
		want = packet.AppendAck(want, packet.V5, packet.PUBACK, id+1, packet.Success)
	}
	turn.end()
	if got := bytes.Join(out.writes, nil); !bytes.Equal(got, want) || c.owes() || len(turn.resettle) > 0 {
		t.Fatalf("%x is written, not %x; still owed: %v", got, want, c.owes())
	}
}

// TestAcknowledgementsAreNotOvertaken has a record stored while the packets behind
// it are still read. [MQTT-4.6.0-2]
func TestAcknowledgementsAreNotOvertaken(t *testing.T) {
	out := new(written)
	n := newNode(t, -1, func(o *Options) { o.Journal = &MemoryJournal{} })
	reader, scribe := newTurn(n.Broker).begin(), newTurn(n.Broker).begin()
	c := &conn{b: n.Broker, door: new(door), transport: out, version: packet.V5}
	first := packet.AppendAck(nil, packet.V5, packet.PUBACK, 1, packet.Success)
	reader.acks = append(reader.acks, first...)
	reader.owe(c, pendingAck{typ: packet.PUBACK, id: 2})
	scribe.settleOwed(c)
	scribe.end()
	reader.acknowledge(c)
	reader.end()
	if got, want := bytes.Join(out.writes, nil), packet.AppendAck(first, packet.V5, packet.PUBACK, 2, packet.Success); !bytes.Equal(got, want) {
		t.Fatalf("%x is written, not %x", got, want)
	}
}
