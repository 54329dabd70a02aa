package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A group is what is stored at once: entries that follow each other in one
// chain. Integers are big-endian.
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
	groupMagic  = "aba1"
	headerSize  = len(groupMagic) + chainSize + 8 + 8 + sha256.Size + 4
	chainSize   = 8
	sealSize    = sha256.Size
	entryDomain = "aibridge audit entry\x00"
	sealDomain  = "aibridge audit group\x00"
	headDomain  = "aibridge audit head\x00"
)

// A chainID tells chains apart. It follows from the key.
type chainID [chainSize]byte

func (c chainID) String() string { return hex.EncodeToString(c[:]) }

// A Head is the end of a chain: whoever has noted one notices when entries up
// to it are changed or cut off later.
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

// appendGroup writes a group of entries that follow a head. It returns the new
// head.
func (k *Key) appendGroup(dst []byte, head Head, at time.Time, entries [][]byte) ([]byte, Head) {
	dst = append(dst, groupMagic...)
	dst = append(dst, k.chain[:]...)
	dst = binary.BigEndian.AppendUint64(dst, head.Seq+1)
	dst = binary.BigEndian.AppendUint64(dst, uint64(at.UnixMilli()))
	dst = append(dst, head.Hash[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(entries)))
	header := dst[len(dst)-headerSize:]
	for _, entry := range entries {
		head = head.follow(k.chain, entry)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(entry)))
		dst = append(dst, entry...)
		dst = append(dst, head.Hash[:]...)
	}
	return append(dst, k.seal(header, head.Hash[:])...), head
}

func (k *Key) seal(header, last []byte) []byte { return k.mac(sealDomain, header, last) }

// A group that was read.
type group struct {
	header   []byte
	chain    chainID
	first    uint64
	at       time.Time
	previous [sha256.Size]byte
	entries  []stored
	seal     []byte
}

// A stored entry, as it stands in a group.
type stored struct {
	json []byte
	hash [sha256.Size]byte
}

// last is the sequence of the last entry.
func (g *group) last() uint64 { return g.first + uint64(len(g.entries)) - 1 }

// head is the end of the group, as it says.
func (g *group) head() Head { return Head{g.last(), g.entries[len(g.entries)-1].hash} }

// sealed reports whether the group was written with the key.
func (g *group) sealed(k *Key) bool {
	last := g.head().Hash
	return hmac.Equal(g.seal, k.seal(g.header, last[:]))
}

// decodeGroup reads a group. Its parts are parts of data.
func decodeGroup(data []byte) (*group, error) {
	if len(data) < headerSize+sealSize || !bytes.HasPrefix(data, []byte(groupMagic)) {
		return nil, errors.New("not a group of entries")
	}
	g := &group{header: data[:headerSize], seal: data[len(data)-sealSize:]}
	rest := g.header[len(groupMagic):]
	g.chain, rest = chainID(rest), rest[chainSize:]
	g.first, rest = binary.BigEndian.Uint64(rest), rest[8:]
	g.at, rest = time.UnixMilli(int64(binary.BigEndian.Uint64(rest))), rest[8:]
	g.previous, rest = [sha256.Size]byte(rest), rest[sha256.Size:]
	count := binary.BigEndian.Uint32(rest)
	body := data[headerSize : len(data)-sealSize]
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
		g.entries = append(g.entries, stored{body[:size:size], [sha256.Size]byte(body[size:])})
		body = body[size+sha256.Size:]
	}
	if len(body) != 0 {
		return nil, fmt.Errorf("a group with %d bytes too many", len(body))
	}
	return g, nil
}
