package run

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A piece is a part of a file: its beginning, or an addition.
type piece struct {
	op   byte
	path string
	data []byte // or the name of the blob
}

const (
	opWrite  = 'w'
	opAppend = 'a'
	opBlob   = 'b' // a write whose data is in a blob

	recordMark  = 'm'
	recordGroup = 'g'
)

// encode returns a record with the pending pages and changes.
func (b *logBook) encode() ([]byte, error) {
	record := binary.AppendUvarint([]byte{recordGroup}, uint64(len(b.pages)))
	record = append(record, b.pages...)
	if len(b.changes) == 0 {
		return record, nil
	}
	var plain []byte
	for _, p := range b.changes {
		plain = binary.AppendUvarint(append(plain, p.op), uint64(len(p.path)))
		plain = binary.AppendUvarint(append(plain, p.path...), uint64(len(p.data)))
		plain = append(plain, p.data...)
	}
	sealed, err := b.sealer.Seal(plain, b.purpose())
	return append(record, sealed...), err
}

// replay applies the changes of files in a record.
func (b *logBook) replay(plain []byte) error {
	for len(plain) > 0 {
		p := piece{op: plain[0]}
		path, rest, err := field(plain[1:])
		if err == nil {
			p.data, plain, err = field(rest)
		}
		if err != nil {
			return err
		}
		p.path = string(path)
		b.made(p)
	}
	return nil
}

// field cuts off bytes that begin with their length.
func field(b []byte) (value, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, errors.New("a record that is cut off")
	}
	return b[size : size+int(n)], b[size+int(n):], nil
}

// purpose binds the files of a group to the run and the place in its log.
func (b *logBook) purpose() string { return fmt.Sprintf("run/%s/files/%d", b.id, b.groups) }
