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
