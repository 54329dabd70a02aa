package evidence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/aibridge/aibridge/commands"
)

// A record is its kind, the length of its body, and the body. The body of a definition
// is its number and its text.
const (
	claimDefinition byte = iota + 1
	claimRecord
	entryDefinition
	entryRecord
)

// maxText is the greatest length of the principal and of the request id of a claim, in
// bytes.
const maxText = math.MaxUint16

var errBadRecord = errors.New("not a record")

func appendRecord(dst []byte, kind byte, body []byte) []byte {
	dst = binary.AppendUvarint(append(dst, kind), uint64(len(body)))
	return append(dst, body...)
}

// cutRecord reads the record that data begins with.
func cutRecord(data []byte) (kind byte, body, rest []byte, err error) {
	if len(data) < 2 {
		return 0, nil, nil, errBadRecord
	}
	length, n := binary.Uvarint(data[1:])
	if n <= 0 || length > uint64(len(data)-1-n) {
		return 0, nil, nil, errBadRecord
	}
	end := 1 + n + int(length)
	if data[0] == 0 || data[0] > entryRecord {
		return 0, nil, nil, newerError{fmt.Sprintf("a record of kind %d", data[0])}
	}
	return data[0], data[1+n : end : end], data[end:], nil
}

// A dictionary numbers the texts that a block repeats.
type dictionary struct {
	numbers map[string]uint64
	kind    byte // of its definitions
}

// number returns the number of a text. If it is new, its definition is appended
// to dst.
func (d *dictionary) number(dst, text []byte) (uint64, []byte) {
	if n, ok := d.numbers[string(text)]; ok {
		return n, dst
	}
	n := uint64(len(d.numbers) + 1)
	d.numbers[string(text)] = n
	size := len(text) + uvarintSize(n)
	dst = binary.AppendUvarint(append(dst, d.kind), uint64(size))
	return n, append(binary.AppendUvarint(dst, n), text...)
}

func uvarintSize(n uint64) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// Names are the definitions read from a block so far.
type Names struct {
	block         uint32
	known         bool
	claims, entry map[uint64][]byte
}

// Name is the text of a number in entries, nil if it is not known.
func (n *Names) Name(number uint64) []byte { return n.entry[number] }

// follow prepares the names for the next group: those of another block are dropped.
func (n *Names) follow(g *Group) {
	if g.Begins || !n.known || n.block != g.Block {
		*n = Names{block: g.Block, known: true, claims: make(map[uint64][]byte), entry: make(map[uint64][]byte)}
	}
}

// A visitor is shown the records of a group.
type visitor struct {
	claim func(commands.Claim)
	entry func(body []byte)
}

// visit reads the records of a group. Names has to have followed the groups of
// its block before.
func (g *Group) visit(names *Names, v visitor) error {
	names.follow(g)
	for rest := g.records; len(rest) > 0; {
		kind, body, left, err := cutRecord(rest)
		if err != nil {
			return err
		}
		rest = left
		switch kind {
		case claimDefinition, entryDefinition:
			number, n := binary.Uvarint(body)
			if n <= 0 {
				return errBadRecord
			}
			if kind == claimDefinition {
				names.claims[number] = body[n:]
			} else {
				names.entry[number] = body[n:]
			}
		case claimRecord:
			if v.claim == nil {
				continue
			}
			c, err := names.claim(body)
			if err != nil {
				return err
			}
			v.claim(c)
		case entryRecord:
			if v.entry != nil {
				v.entry(body)
			}
		}
	}
	return nil
}

// Entries calls f for the entries of a group, in order. Names has to have
// followed the groups of its block before: it may be the zero Names for the
// first.
func (g *Group) Entries(names *Names, f func(body []byte)) error {
	return g.visit(names, visitor{entry: f})
}

// appendClaim appends the record of a claim: the numbers of its principal and of the
// part of its hash behind the digest, the digest, the expiry, and the request id up to
// the end.
func (d *dictionary) appendClaim(dst, scratch []byte, c *commands.Claim) (out, body []byte) {
	scratch = append(scratch[:0], c.Principal...)
	who, dst := d.number(dst, scratch)
	what, dst := d.number(dst, c.Hash[digestSize:])
	body = binary.AppendUvarint(scratch[:0], who)
	body = binary.AppendUvarint(body, what)
	body = append(body, c.Hash[:digestSize]...)
	body = binary.AppendVarint(body, c.Expires.UnixMilli())
	body = AppendID(body, c.RequestID)
	return appendRecord(dst, claimRecord, body), body
}

// digestSize is the size of the digest that a claim's hash begins with.
const digestSize = 16

func (n *Names) claim(body []byte) (c commands.Claim, err error) {
	who, body, ok := CutUvarint(body)
	what, body, also := CutUvarint(body)
	principal, rest := n.claims[who], n.claims[what]
	if !ok || !also || principal == nil || len(rest) != len(c.Hash)-digestSize || len(body) < digestSize {
		return c, errBadRecord
	}
	copy(c.Hash[:], body[:digestSize])
	copy(c.Hash[digestSize:], rest)
	expires, size := binary.Varint(body[digestSize:])
	if size <= 0 {
		return c, errBadRecord
	}
	id, body, ok := CutID(body[digestSize+size:])
	if !ok || len(body) != 0 {
		return c, errBadRecord
	}
	c.Principal, c.RequestID, c.Expires = string(principal), id, time.UnixMilli(expires)
	return c, nil
}
