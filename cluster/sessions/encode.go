package sessions

import (
	"encoding/binary"
	"errors"
	"github.com/aibridge/aibridge/internal/fields"
)

// Kinds of messages of the log.
const (
	logEntry byte = iota + 1 // records
	logState                 // a part of the whole table
)

const logVersion = 1

var errMessage = errors.New("sessions: a message is malformed")

// append encodes the entry as a message of the log.
func (e *Entry) append(dst []byte) []byte {
	dst = appendNode(append(dst, logVersion, logEntry), e.Writer)
	dst = binary.AppendUvarint(dst, e.Tag)
	for i := range e.Records {
		r := &e.Records[i]
		dst = append(dst, byte(r.Kind))
		switch r.Kind {
		case Claim:
			dst = binary.AppendUvarint(appendOwner(append(dst, r.Key[:]...), r.From), uint64(r.To))
			dst = binary.AppendUvarint(dst, r.Giver)
		case Release:
			dst = appendOwner(append(dst, r.Key[:]...), r.From)
		}
	}
	return dst
}

func (r *reader) entry() (e Entry, err error) {
	e.Writer, e.Tag = r.node(), r.Uvarint()
	for r.More() {
		record := Record{Kind: RecordKind(r.Byte())}
		switch record.Kind {
		case Begin:
		case Claim:
			record.Key, record.From, record.To, record.Giver = r.key(), r.owner(), uint32(r.Uvarint()), r.Uvarint()
		case Release:
			record.Key, record.From = r.key(), r.owner()
		default:
			return e, errMessage
		}
		e.Records = append(e.Records, record)
	}
	if r.Bad || e.Writer.ID == "" {
		return e, errMessage
	}
	return e, nil
}

// A part is one of the messages that together have the whole table as of a position of
// the log.
type part struct {
	writer   Node
	position uint64
	number   uint32 // counted from 0
	last     bool
	bridges  []bridge // in the first
	entries  []stated
}

type stated struct {
	key Key
	owned
}

func (p *part) append(dst []byte) []byte {
	dst = appendNode(append(dst, logVersion, logState), p.writer)
	dst = binary.AppendUvarint(dst, p.position)
	dst = binary.AppendUvarint(dst, uint64(p.number))
	dst = append(dst, boolByte(p.last))
	dst = binary.AppendUvarint(dst, uint64(len(p.bridges)))
	for _, b := range p.bridges {
		dst = appendNode(dst, Node{b.id, b.epoch})
	}
	for _, s := range p.entries {
		dst = append(dst, s.key[:]...)
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(s.bridge)), uint64(s.epoch))
	}
	return dst
}

func (r *reader) part() (p part, err error) {
	p.writer, p.position, p.number, p.last = r.node(), r.Uvarint(), uint32(r.Uvarint()), r.Byte() == 1
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		is := r.node()
		p.bridges = append(p.bridges, bridge{is.ID, is.Epoch})
	}
	for r.More() {
		p.entries = append(p.entries, stated{r.key(), owned{uint32(r.Uvarint()), uint32(r.Uvarint())}})
	}
	if r.Bad {
		return p, errMessage
	}
	return p, nil
}

func appendNode(dst []byte, n Node) []byte {
	return binary.AppendUvarint(fields.AppendText(dst, n.ID), n.Epoch)
}

func appendOwner(dst []byte, o Owner) []byte {
	return binary.AppendUvarint(fields.AppendText(dst, o.Bridge), uint64(o.Epoch))
}

func boolByte(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// A reader walks a message.
type reader struct{ fields.Reader }

func (r *reader) key() (k Key) {
	copy(k[:], r.Take(len(k)))
	return k
}

func (r *reader) node() Node   { return Node{r.Text(), r.Uvarint()} }
func (r *reader) owner() Owner { return Owner{r.Text(), uint32(r.Uvarint())} }
