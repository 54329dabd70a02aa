package relay

import (
	"encoding/binary"

	"github.com/aibridge/aibridge/broker"
)

// Kinds of records in a stream.
const (
	recMessage byte = iota + 1 // marks, number of groups, groups, message
	recBatch                   // of subscriptions of the sender's clients
	recResync                  // a request for a snapshot of the receiver's subscriptions
	recOutcome                 // offset in the other stream, outcome of that message
	recPart                    // number of a part, marks, message
	recLeft                    // offset in the other stream, the groups in which no member took that message
)

// Marks of messages.
const (
	markAnswer = 1 << iota // the publisher waits for its acceptance
	markTell               // and for its outcome
	markOnly               // it is for the groups only
)

// mostGroups is the greatest number of groups of a message at one bridge.
const mostGroups = 1 << 10

// appendRecord begins a record of so many bytes.
func appendRecord(dst []byte, kind byte, size int) []byte {
	return append(binary.AppendUvarint(dst, uint64(size+1)), kind)
}

// recordSize returns the lengths of the head and of the whole record at the start of b,
// 0 if b is too short to know them.
func recordSize(b []byte) (head, size int) {
	n, head := binary.Uvarint(b)
	if head <= 0 || n > 1<<32 {
		return 0, 0
	}
	return head, head + int(n)
}

// appendMessage appends the marks and groups that precede a message in its record.
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
