package store

import (
	"encoding/binary"
	"errors"
)

// A record of values is changes one after the other. A change is, lengths as
// varints: twice the length of the key, plus one if the key is removed; the
// key; unless it is removed, length and bytes of the value.

// A change is one change in a record of values, which it refers to.
type change struct {
	key     []byte
	value   []byte
	removed bool
	at, end int // its place in the record
}

// size is the length of the change in the record, in bytes.
func (c *change) size() int { return c.end - c.at }

func appendChange(record []byte, v KeyedValue) []byte {
	head := uint64(len(v.Key)) << 1
	if v.Value == nil {
		head |= 1
	}
	record = binary.AppendUvarint(record, head)
	record = append(record, v.Key...)
	if v.Value == nil {
		return record
	}
	record = binary.AppendUvarint(record, uint64(len(v.Value)))
	return append(record, v.Value...)
}

// changeSize is an upper bound of the bytes that appendChange adds.
func changeSize(v KeyedValue) int {
	return len(v.Key) + len(v.Value) + 2*binary.MaxVarintLen64
}

var errChangeCut = errors.New("record of values is cut off")

// changeAt reads the change at a place in a record.
func changeAt(record []byte, at int) (c change, err error) {
	c.at = at
	head, n := binary.Uvarint(record[at:])
	at += n
	if n <= 0 || head>>1 > uint64(len(record)-at) {
		return c, errChangeCut
	}
	c.removed = head&1 != 0
	c.key = record[at : at+int(head>>1)]
	at += len(c.key)
	if !c.removed {
		size, n := binary.Uvarint(record[at:])
		at += n
		if n <= 0 || size > uint64(len(record)-at) {
			return c, errChangeCut
		}
		c.value = record[at : at+int(size) : at+int(size)]
		at += len(c.value)
	}
	c.end = at
	return c, nil
}
