package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aibridge/aibridge/internal/evidence"
)

// Domains keep a hash or seal made for one purpose from being taken for
// another.
const (
	groupDomain = "aibridge evidence group\x00"
	sealDomain  = "aibridge evidence seal\x00"
	headDomain  = "aibridge audit head\x00"
)

var (
	groupDomainBytes = []byte(groupDomain)
	sealDomainBytes  = []byte(sealDomain)
)

const chainSize = 8

// A chainID identifies a chain. It is derived from the key.
type chainID [chainSize]byte

func (c chainID) String() string { return hex.EncodeToString(c[:]) }

// A Head is the end of a chain. A noted head reveals later changes of the entries up to
// it, and that they were cut off.
type Head struct {
	Seq  uint64
	Hash [sha256.Size]byte
}

// String is the sequence and the hash, "17:5feceb66…".
func (h Head) String() string {
	return strconv.FormatUint(h.Seq, 10) + ":" + hex.EncodeToString(h.Hash[:])
}

// ParseHead reads what [Head.String] wrote.
func ParseHead(text string) (Head, error) {
	seq, hash, ok := strings.Cut(text, ":")
	n, err := strconv.ParseUint(seq, 10, 64)
	raw, bad := hex.DecodeString(hash)
	if !ok || err != nil || bad != nil || len(raw) != sha256.Size {
		return Head{}, errors.New("a head is a number, a colon and 64 hexadecimal digits")
	}
	return Head{Seq: n, Hash: [sha256.Size]byte(raw)}, nil
}

// header writes the header of a group of entries that follows a head.
func (k *Key) header(header []byte, head Head, entries int) {
	copy(header, k.chain[:])
	binary.LittleEndian.PutUint64(header[8:], head.Seq+1)
	binary.LittleEndian.PutUint32(header[16:], uint32(entries))
	copy(header[20:], head.Hash[:])
}

// hashGroup is the hash of a group, to which the next one is chained.
func hashGroup(sealed []byte) (sum [sha256.Size]byte) {
	h := hashers.Get().(*digester)
	defer hashers.Put(h)
	h.Reset()
	h.Write(groupDomainBytes)
	h.Write(sealed)
	copy(sum[:], h.Sum(h.sum[:0]))
	return sum
}

var hashers = sync.Pool{New: func() any { return &digester{Hash: sha256.New()} }}

// A group is entries that were written together, as they were read: chained by
// the hash of their group, or if they were imported, each by its own.
type group struct {
	imported bool
	sealed   []byte // the sealed bytes; of an imported group without the last hash
	seal     []byte
	chain    chainID
	first    uint64
	at       time.Time         // of the first entry
	previous [sha256.Size]byte // the hash that the group is chained to
	hash     [sha256.Size]byte // the hash that the next one is chained to
	entries  []stored
}

// A stored entry, as it stands in a group.
type stored struct {
	json []byte            // of an imported group
	hash [sha256.Size]byte // the same

	body  []byte
	names evidence.Names
}

// last is the sequence of the last entry.
func (g *group) last() uint64 { return g.first + uint64(len(g.entries)) - 1 }

// head is the end of the group.
func (g *group) head() Head { return Head{g.last(), g.hash} }

// written reports whether the group was sealed with the key.
func (g *group) written(k *Key) bool {
	if g.imported {
		return hmac.Equal(g.seal, k.mac(importedDomain, g.sealed, g.hash[:]))
	}
	return hmac.Equal(g.seal, k.mac(sealDomain, g.hash[:]))
}

// genuine reports whether a group is as it was written with the key.
func (g *group) genuine(k *Key) bool {
	if g.imported {
		head := Head{Seq: g.first - 1, Hash: g.previous}
		for _, e := range g.entries {
			if head = head.follow(k.chain, e.json); head.Hash != e.hash {
				return false
			}
		}
	}
	return g.written(k)
}

// headAt is the head after an entry, if the group has it.
func (g *group) headAt(seq uint64) (h Head, ok bool) {
	switch {
	case seq == g.last():
		return g.head(), true
	case g.imported:
		return Head{seq, g.entries[seq-g.first].hash}, true
	}
	return Head{}, false
}

// decodeGroup reads a group that was written with entries. Names has followed
// the groups of its block before.
func decodeGroup(e *evidence.Group, names *evidence.Names) (*group, error) {
	g := &group{sealed: e.Sealed, seal: e.Seal, first: e.First(), chain: chainID(e.Header)}
	copy(g.previous[:], e.Header[20:])
	g.hash = hashGroup(e.Sealed)
	err := e.Entries(names, func(body []byte) {
		g.entries = append(g.entries, stored{body: body, names: *names})
	})
	if err == nil && (len(g.entries) == 0 || uint32(len(g.entries)) != e.Count() || g.first == 0 || g.last() < g.first) {
		err = errors.New("a group of an impossible size")
	}
	if err == nil {
		g.at = writtenAt(g.entries[0].body)
	}
	return g, err
}

// A block is groups that are read together.
type block struct {
	groups  []*group // those with entries
	damaged []damage // the stretches that are no group
	at      time.Time
}

// damage is something that cannot be read, behind a number of groups.
type damage struct {
	behind int
	err    error
}

// decodeBlock reads a block. Its parts are parts of data.
func decodeBlock(data []byte) (b block) {
	if bytes.HasPrefix(data, []byte(importedMagic)) { // as an earlier version has stored it
		b.add(decodeImported(data))
		return b
	}
	var names evidence.Names
	for e, lost := range evidence.Groups(data) {
		switch {
		case lost != nil:
			b.damaged = append(b.damaged, damage{len(b.groups), lost})
		case e.Imported != nil:
			b.add(decodeImported(e.Imported))
		case e.Chained:
			b.add(decodeGroup(&e, &names))
		default:
			_ = e.Entries(&names, func([]byte) {}) // may begin the block
		}
	}
	return b
}

func (b *block) add(g *group, err error) {
	if err != nil {
		b.damaged = append(b.damaged, damage{len(b.groups), err})
		return
	}
	if b.at.IsZero() {
		b.at = g.at
	}
	b.groups = append(b.groups, g)
}

// lastOf is the last group of a chain, nil if there is none.
func (b *block) lastOf(chain chainID) *group {
	for i := len(b.groups) - 1; i >= 0; i-- {
		if b.groups[i].chain == chain {
			return b.groups[i]
		}
	}
	return nil
}
