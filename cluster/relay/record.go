package relay

import (
	"encoding/binary"

	"github.com/aibridge/aibridge/broker"
)

// Kinds of records in a stream.
const (
	recMessage byte = iota + 1 // marks, number of groups, groups, message
	recBatch                   // of what the sender's clients subscribe to
	recResync                  // the receiver is to send a snapshot of the same
	recOutcome                 // offset in the other stream, what became of that message
	recPart                    // number and marks of a part, what it says
	recLeft                    // offset in the other stream, the groups of which nobody took that message
)

// Marks of messages.
const (
	markAnswer = 1 << iota // the publisher waits for its acceptance
	markTell               // and for what became of it
	markOnly               // it is for the groups and for nobody else
)

// mostGroups bounds the groups that a message is for at one bridge.
const mostGroups = 1 << 10

// appendRecord begins a record of so many bytes.
func appendRecord(dst []byte, kind byte, size int) []byte {
	return append(binary.AppendUvarint(dst, uint64(size+1)), kind)
}

// recordSize is the length of the record at the start of b, 0 if that
// cannot be told yet.
func recordSize(b []byte) (head, size int) {
	n, head := binary.Uvarint(b)
	if head <= 0 || n > 1<<32 {
		return 0, 0
	}
	return head, head + int(n)
}

// appendMessage appends what goes before a message in its record.
func appendMessage(dst []byte, m *broker.Outgoing) []byte {
	var marks byte
	if m.Receipt != nil {
		marks |= markAnswer
	}
	if m.Telling {
		marks |= markTell
	}
	if m.Only {
		marks |= markOnly
	}
	dst = binary.AppendUvarint(append(dst, marks), uint64(len(m.Groups)))
	return appendGroups(dst, m.Groups)
}

func appendGroups(dst []byte, groups []uint64) []byte {
	for _, g := range groups {
		dst = binary.LittleEndian.AppendUint64(dst, g)
	}
	return dst
}

// parseMessage splits the record of a message.
func parseMessage(b []byte, into []uint64) (marks byte, groups []uint64, encoded []byte, ok bool) {
	if len(b) == 0 || b[0]&^(markAnswer|markTell|markOnly) != 0 {
		return 0, nil, nil, false
	}
	marks = b[0]
	n, head := binary.Uvarint(b[1:])
	if head <= 0 || n > mostGroups || uint64(len(b)-1-head) < 8*n {
		return 0, nil, nil, false
	}
	b = b[1+head:]
	groups = into[:0]
	for range n {
		groups = append(groups, binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	return marks, groups, b, true
}
