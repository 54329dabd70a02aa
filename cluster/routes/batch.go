package routes

import (
	"encoding/binary"
	"errors"

	"github.com/aibridge/aibridge/broker/topic"
	"github.com/aibridge/aibridge/internal/fields"
	"github.com/aibridge/aibridge/protocol"
)

// A Batch is an announcement of a bridge: changes since its previous batch, or a part
// of a snapshot of everything.
type Batch struct {
	Epoch uint64 // of the process that announces
	// Seq counts the batches of changes of an epoch. All parts of a snapshot have the
	// Seq of the last batch included in it.
	Seq uint64
	// Sum is the checksum of all announcements of the bridge including this batch. It
	// is valid in the last part of a snapshot and in every batch of changes.
	Sum      uint64
	Snapshot bool
	Part     uint32 // of a snapshot, from 0
	Last     bool   // of these parts

	Add, Drop []uint64 // hashes of filters without wildcards
	Wild      []WildChange
	Groups    []GroupChange
}

// A WildChange is a filter with wildcards that has its first subscriber, or has
// lost its last one.
type WildChange struct {
	Drop   bool
	Space  protocol.SpaceID
	Filter string
}

// A GroupChange is the new number of members of a group of shared subscriptions at a
// bridge. Its filter is either a hash or, with wildcards, a text in a space.
type GroupChange struct {
	Group   uint64
	Members uint32 // 0 removes the group
	Literal uint64
	Space   protocol.SpaceID
	Filter  string
}

// Marks in the first byte of a batch.
const (
	markSnapshot = 1 << iota
	markLast
	markDrop
	markWild
	markAll = markSnapshot | markLast
)

var errBatch = errors.New("routes: a batch of announcements is malformed")

// Append encodes the batch.
func (b *Batch) Append(dst []byte) []byte {
	var marks byte
	if b.Snapshot {
		marks |= markSnapshot
	}
	if b.Last {
		marks |= markLast
	}
	dst = append(dst, marks)
	dst = binary.LittleEndian.AppendUint64(dst, b.Epoch)
	dst = binary.LittleEndian.AppendUint64(dst, b.Sum)
	dst = binary.AppendUvarint(dst, b.Seq)
	dst = binary.AppendUvarint(dst, uint64(b.Part))
	dst = appendHashes(dst, b.Add)
	dst = appendHashes(dst, b.Drop)
	dst = binary.AppendUvarint(dst, uint64(len(b.Wild)))
	for i := range b.Wild {
		dst = b.Wild[i].append(dst)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Groups)))
	for i := range b.Groups {
		dst = b.Groups[i].append(dst)
	}
	return dst
}

func appendHashes(dst []byte, hashes []uint64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(hashes)))
	for _, h := range hashes {
		dst = binary.LittleEndian.AppendUint64(dst, h)
	}
	return dst
}

func (c *WildChange) append(dst []byte) []byte {
	var marks byte
	if c.Drop {
		marks = markDrop
	}
	return fields.AppendText(fields.AppendText(append(dst, marks), c.Space), c.Filter)
}

func (c *GroupChange) append(dst []byte) []byte {
	var marks byte
	if c.Filter != "" {
		marks = markWild
	}
	dst = binary.LittleEndian.AppendUint64(append(dst, marks), c.Group)
	dst = binary.AppendUvarint(dst, uint64(c.Members))
	if c.Filter == "" {
		return binary.LittleEndian.AppendUint64(dst, c.Literal)
	}
	return fields.AppendText(fields.AppendText(dst, c.Space), c.Filter)
}

// Decode parses the encoding of Append into b, whose slices it reuses. It rejects
// malformed batches.
func (b *Batch) Decode(encoded []byte) error {
	r := reader{fields.Of(encoded)}
	marks := r.Byte()
	*b = Batch{
		Snapshot: marks&markSnapshot != 0,
		Last:     marks&markLast != 0,
		Epoch:    r.Fixed(),
		Sum:      r.Fixed(),
		Seq:      r.Uvarint(),
		Part:     r.uint32(),
		Add:      r.hashes(b.Add[:0]),
		Drop:     r.hashes(b.Drop[:0]),
		Wild:     b.Wild[:0],
		Groups:   b.Groups[:0],
	}
	for n := r.Count(4); n > 0 && !r.Bad; n-- {
		b.Wild = append(b.Wild, r.wild())
	}
	for n := r.Count(13); n > 0 && !r.Bad; n-- {
		b.Groups = append(b.Groups, r.group())
	}
	if r.Bad || len(r.Left) > 0 || marks&^markAll != 0 {
		return errBatch
	}
	return nil
}

// A reader walks an encoded batch.
type reader struct{ fields.Reader }

func (r *reader) uint32() uint32 {
	v := r.Uvarint()
	if v != uint64(uint32(v)) {
		r.Fail()
	}
	return uint32(v)
}

func (r *reader) hashes(into []uint64) []uint64 {
	n := r.Count(8)
	for range n {
		into = append(into, r.Fixed())
	}
	return into
}

func (r *reader) wild() WildChange {
	marks := r.Byte()
	c := WildChange{Drop: marks&markDrop != 0, Space: protocol.SpaceID(r.Text()), Filter: r.Text()}
	if marks&^markDrop != 0 || !isWild(c.Filter) {
		r.Fail()
	}
	return c
}

func (r *reader) group() GroupChange {
	marks := r.Byte()
	c := GroupChange{Group: r.Fixed(), Members: r.uint32()}
	if marks&markWild == 0 {
		c.Literal = r.Fixed()
	} else if c.Space, c.Filter = protocol.SpaceID(r.Text()), r.Text(); !isWild(c.Filter) {
		r.Fail()
	}
	if marks&^markWild != 0 || c.Group == 0 {
		r.Fail()
	}
	return c
}

func isWild(filter string) bool { return topic.HasWildcard(filter) && topic.ValidFilter(filter) }
