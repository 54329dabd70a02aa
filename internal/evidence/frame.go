package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"time"
)

// The frame of a group, as in DESIGN.md.
const (
	magic       = "abe1"
	frameHead   = len(magic) + 4 + 4          // magic, checksum, length
	groupHead   = frameHead + 1 + 4 + 8 + 8   // flags, block, time, age
	chainedHead = groupHead + ChainHeaderSize // bytes before the records of a chained group
	maxFrame    = 2 << 20
)

// The sizes of the parts of a group that a [Chain] writes.
const (
	ChainHeaderSize = 8 + 8 + 4 + 32 // chain, sequence of the first entry, number of entries, hash of the group before
	SealSize        = 32
)

// Flags of a group.
const (
	beginsBlock byte = 1 << iota
	chained
	imported
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Group is the content of one write, as it stands in the log. Its parts alias the bytes
// that it was read from.
type Group struct {
	Bytes   []byte // the whole frame
	Block   uint32
	Begins  bool // a block
	Chained bool // has entries, a chain header and a seal
	Time    time.Time
	// Imported is a group of an earlier version's trail, as that wrote it; nil
	// for any other.
	Imported []byte

	// Sealed are the bytes that hash and seal are about: everything from the flags to the
	// last record.
	Sealed  []byte
	Header  []byte // of the chain, in Sealed
	Seal    []byte
	records []byte
	age     uint64 // ms
}

var (
	errNotGroup = errors.New("not a group of records, or a damaged one")
	errCut      = errors.New("a group that is cut off")
)

// A newerError is the error of whole data from a later version.
type newerError struct{ what string }

func (e newerError) Error() string { return "written by a newer bridge: " + e.what }

// CutGroup reads the group that data begins with.
func CutGroup(data []byte) (g Group, err error) {
	if len(data) < groupHead {
		return g, errCut
	}
	if string(data[:len(magic)]) != magic {
		return g, errNotGroup
	}
	length := int(binary.LittleEndian.Uint32(data[8:]))
	if length < groupHead-frameHead || length > maxFrame {
		return g, errNotGroup
	}
	if length > len(data)-frameHead {
		return g, errCut
	}
	g.Bytes = data[: frameHead+length : frameHead+length]
	if crc32.Checksum(g.Bytes[8:], castagnoli) != binary.LittleEndian.Uint32(data[4:]) {
		return g, errNotGroup
	}
	return g, g.decode()
}

func (g *Group) decode() error {
	data := g.Bytes
	flags := data[frameHead]
	if flags > beginsBlock|chained|imported {
		return newerError{fmt.Sprintf("a group of kind %#x", flags)}
	}
	g.Begins, g.Chained = flags&beginsBlock != 0, flags&chained != 0
	g.Block = binary.LittleEndian.Uint32(data[frameHead+1:])
	g.Time = time.UnixMilli(int64(binary.LittleEndian.Uint64(data[frameHead+5:])))
	g.age = binary.LittleEndian.Uint64(data[frameHead+13:])
	switch {
	case flags&imported != 0:
		g.Imported = data[groupHead:]
	case g.Chained:
		if len(data) < chainedHead+SealSize {
			return errNotGroup
		}
		end := len(data) - SealSize
		g.Sealed, g.Header, g.records, g.Seal = data[frameHead:end], data[groupHead:chainedHead], data[chainedHead:end], data[end:]
	default:
		g.records = data[groupHead:]
	}
	return nil
}

// First is the sequence of the first entry of a chained group.
func (g *Group) First() uint64 { return binary.LittleEndian.Uint64(g.Header[8:]) }

// Count is the number of entries of a chained group.
func (g *Group) Count() uint32 { return binary.LittleEndian.Uint32(g.Header[16:]) }

// completeFrame completes the frame of the records in data from room on: it writes the
// header before them, and returns the beginning of the frame. For a chained group the
// chain's header and seal are already in data.
func completeFrame(data []byte, room int, flags byte, block uint32, at time.Time, age uint64) (begin int) {
	begin = room - groupHead
	if flags&chained != 0 {
		begin = room - chainedHead
	}
	frame := data[begin:]
	copy(frame, magic)
	binary.LittleEndian.PutUint32(frame[8:], uint32(len(frame)-frameHead))
	frame[frameHead] = flags
	binary.LittleEndian.PutUint32(frame[frameHead+1:], block)
	binary.LittleEndian.PutUint64(frame[frameHead+5:], uint64(at.UnixMilli()))
	binary.LittleEndian.PutUint64(frame[frameHead+13:], age)
	return begin
}

// sumFrame writes the checksum of a frame that is complete otherwise.
func sumFrame(frame []byte) {
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(frame[8:], castagnoli))
}

// A Damage is a run of bytes that is no group.
type Damage struct {
	Block uint32 // of the group before
	Bytes int
	Err   error
}

func (d *Damage) Error() string { return fmt.Sprintf("%d bytes: %v", d.Bytes, d.Err) }

// Groups yields the groups of a block, and a *Damage for broken bytes.
func Groups(block []byte) iter.Seq2[Group, *Damage] {
	return func(yield func(Group, *Damage) bool) {
		var last uint32
		for len(block) > 0 {
			g, err := CutGroup(block)
			if err == nil {
				last, block = g.Block, block[len(g.Bytes):]
				if !yield(g, nil) {
					return
				}
				continue
			}
			lost := nextGroup(block)
			if !yield(Group{}, &Damage{Block: last, Bytes: lost, Err: err}) {
				return
			}
			block = block[lost:]
		}
	}
}

// nextGroup finds the next group behind the beginning of data, and the end if
// there is none.
func nextGroup(data []byte) int {
	for at := 1; at < len(data); {
		i := bytes.Index(data[at:], []byte(magic))
		if i < 0 {
			break
		}
		at += i
		var newer newerError
		if _, err := CutGroup(data[at:]); err == nil || errors.As(err, &newer) {
			return at
		}
		at++
	}
	return len(data)
}
