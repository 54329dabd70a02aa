package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/aibridge/aibridge/internal/evidence"
)

// An imported group is one that an earlier version has written: entries as JSON,
// each with a hash that follows from the one before. Integers are big-endian.
//
//	"aba1"        magic and version
//	chain         8 bytes, which chain this is of
//	first         8 bytes, sequence of the first entry
//	time          8 bytes, of the first entry, Unix ms
//	previous      32 bytes, hash of the entry before the first
//	count         4 bytes
//	entries       4 bytes length, the entry as JSON, 32 bytes hash
//	seal          32 bytes, HMAC-SHA-256 of the header and the last hash
//
// The hash of an entry is SHA-256 over the domain, the chain, its sequence, the
// hash before it and its JSON, byte by byte as stored.
const (
	importedMagic  = "aba1"
	importedHead   = len(importedMagic) + chainSize + 8 + 8 + sha256.Size + 4
	entryDomain    = "aibridge audit entry\x00"
	importedDomain = "aibridge audit group\x00"
)

// follow is the head after one more entry.
func (h Head) follow(chain chainID, entry []byte) Head {
	next := Head{Seq: h.Seq + 1}
	d := sha256.New()
	var fixed [len(entryDomain) + chainSize + 8 + sha256.Size]byte
	b := append(fixed[:0], entryDomain...)
	b = append(b, chain[:]...)
	b = binary.BigEndian.AppendUint64(b, next.Seq)
	b = append(b, h.Hash[:]...)
	d.Write(b)
	d.Write(entry)
	d.Sum(next.Hash[:0])
	return next
}

// decodeImported reads an imported group. Its parts are parts of data.
func decodeImported(data []byte) (*group, error) {
	if len(data) < importedHead+evidence.SealSize || !bytes.HasPrefix(data, []byte(importedMagic)) {
		return nil, errors.New("not a group of entries")
	}
	g := &group{imported: true, sealed: data[:importedHead], seal: data[len(data)-evidence.SealSize:]}
	rest := g.sealed[len(importedMagic):]
	g.chain, rest = chainID(rest), rest[chainSize:]
	g.first, rest = binary.BigEndian.Uint64(rest), rest[8:]
	g.at, rest = time.UnixMilli(int64(binary.BigEndian.Uint64(rest))), rest[8:]
	g.previous, rest = [sha256.Size]byte(rest), rest[sha256.Size:]
	count := binary.BigEndian.Uint32(rest)
	body := data[importedHead : len(data)-evidence.SealSize]
	if count == 0 || uint64(count) > uint64(len(body)) || g.first == 0 || g.first+uint64(count) < g.first {
		return nil, errors.New("a group of an impossible size")
	}
	g.entries = make([]stored, 0, min(count, 4096))
	for range count {
		if len(body) < 4 {
			return nil, errors.New("a group that is cut off")
		}
		size := uint64(binary.BigEndian.Uint32(body))
		if body = body[4:]; uint64(len(body)) < size+sha256.Size {
			return nil, errors.New("a group that is cut off")
		}
		g.entries = append(g.entries, stored{json: body[:size:size], hash: [sha256.Size]byte(body[size:])})
		body = body[size+sha256.Size:]
	}
	if len(body) != 0 {
		return nil, fmt.Errorf("a group with %d bytes too many", len(body))
	}
	g.hash = g.entries[count-1].hash
	return g, nil
}
