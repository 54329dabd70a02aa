package mirror

import (
	"encoding/binary"
	"errors"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// The kinds of records in the journal. A later record about the same path
// replaces an earlier one.
const (
	recordEntry  byte = 'E' // the entry of a path
	recordForget byte = 'X' // a path of which nothing is known any more
	recordMeta   byte = 'M' // the state of the mirror as a whole
	recordLoser  byte = 'L' // a copy that lost a conflict
	recordOrder  byte = 'Q' // a path that was written here and is still to be sent
	recordSent   byte = 'D' // it was sent
	recordIntent byte = 'I' // a change that begins, see intent
	// recordDropped is an intent that came to nothing.
	recordDropped byte = 'N'
)

var errBadRecord = errors.New("a journal record makes no sense")

// An entry is the mirror's knowledge of a path.
type entry struct {
	base
	print   fingerprint // of the file here when it was read last
	touched uint64      // when this was noted; not kept
}

// covers reports whether both ends agreed on a file with the stamp. There may be
// no entry.
func (e *entry) covers(stamp tree.Stamp) bool {
	return e != nil && e.holds() && e.print.covers(stamp) && e.print.sum == e.sum
}

func appendEntry(dst []byte, path string, e *entry) []byte {
	var flags byte
	for i, set := range [...]bool{e.known, e.deleted, e.print.taken, e.print.sum == e.sum} {
		if set {
			flags |= 1 << i
		}
	}
	dst = append(dst, recordEntry, flags)
	dst = appendText(dst, path)
	for _, n := range [...]int64{int64(e.version), e.size, e.at} {
		dst = binary.AppendVarint(dst, n)
	}
	dst = append(dst, e.sum[:]...)
	if !e.print.taken {
		return dst
	}
	s := e.print.stamp
	for _, n := range [...]int64{s.Size, s.ModTime, s.Change, int64(s.Inode), e.print.read} {
		dst = binary.AppendVarint(dst, n)
	}
	if e.print.sum != e.sum {
		dst = append(dst, e.print.sum[:]...)
	}
	return dst
}

// A decoder takes a record apart. After an error everything is zero.
type decoder struct {
	data []byte
	err  error
}

func (d *decoder) fail() { d.data, d.err = nil, errBadRecord }

func (d *decoder) byte() byte {
	if len(d.data) == 0 {
		d.fail()
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return b
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.data)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.data = d.data[size:]
	return n
}

func (d *decoder) text() string {
	n := d.int()
	if n < 0 || n > int64(len(d.data)) {
		d.fail()
		return ""
	}
	s := string(d.data[:n])
	d.data = d.data[n:]
	return s
}

func (d *decoder) sum() (s Sum) {
	if len(d.data) < len(s) {
		d.fail()
		return s
	}
	d.data = d.data[copy(s[:], d.data):]
	return s
}

func (d *decoder) entry() (path string, e entry) {
	flags := d.byte()
	e.known, e.deleted, e.print.taken = flags&1 != 0, flags&2 != 0, flags&4 != 0
	path = d.text()
	e.version, e.size, e.at = uint64(d.int()), d.int(), d.int()
	e.sum = d.sum()
	if !e.print.taken {
		return path, e
	}
	s := &e.print.stamp
	s.Size, s.ModTime, s.Change, s.Inode, e.print.read = d.int(), d.int(), d.int(), uint64(d.int()), d.int()
	if e.print.sum = e.sum; flags&8 == 0 {
		e.print.sum = d.sum()
	}
	return path, e
}

func appendText(dst []byte, s string) []byte {
	dst = binary.AppendVarint(dst, int64(len(s)))
	return append(dst, s...)
}

// A meta describes the mirror as a whole.
type meta struct {
	instance string // of the VFS; "" if it has none to tell
	clock    int64
	lastSync int64 // Unix milliseconds
	syncs    int64
	sequence int64 // of orders
	paused   bool
}

func appendMeta(dst []byte, m meta) []byte {
	dst = appendText(append(dst, recordMeta), m.instance)
	for _, n := range [...]int64{m.clock, m.lastSync, m.syncs, m.sequence, bit(m.paused)} {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

func (d *decoder) meta() meta {
	m := meta{instance: d.text(), clock: d.int(), lastSync: d.int(), syncs: d.int(), sequence: d.int()}
	if len(d.data) > 0 { // journals of earlier versions know no pause
		m.paused = d.int() == 1
	}
	return m
}

// A Loser is a copy that lost a conflict. It is kept in the folder at Kept, or,
// if it was the VFS's, there as Version.
type Loser struct {
	Path    string
	Rule    Rule
	SHA256  Sum
	Size    int64
	Version uint64 // in the VFS; 0 if it was the copy here
	Kept    string // path inside the folder; "" if it is in the VFS, or was a deletion
	Deleted bool   // the loser was a deletion
	At      int64  // Unix milliseconds
	Winner  Winner // the version that it lost to
}

// A Winner is the version that stays after a conflict.
type Winner struct {
	SHA256  Sum
	Version uint64 // in the VFS; 0 if it was the copy here
	Deleted bool   // a deletion won
	Path    string // another path, in whose way the loser was; else ""
}

func appendLoser(dst []byte, l Loser) []byte {
	dst = appendText(append(dst, recordLoser), l.Path)
	dst = appendText(dst, string(l.Rule))
	dst = appendText(dst, l.Kept)
	dst = append(dst, l.SHA256[:]...)
	for _, n := range [...]int64{l.Size, int64(l.Version), l.At, bit(l.Deleted)} {
		dst = binary.AppendVarint(dst, n)
	}
	dst = appendText(append(dst, l.Winner.SHA256[:]...), l.Winner.Path)
	return binary.AppendVarint(binary.AppendVarint(dst, int64(l.Winner.Version)), bit(l.Winner.Deleted))
}

func bit(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

func (d *decoder) loser() Loser {
	l := Loser{Path: d.text(), Rule: Rule(d.text()), Kept: d.text(), SHA256: d.sum()}
	l.Size, l.Version, l.At, l.Deleted = d.int(), uint64(d.int()), d.int(), d.int() == 1
	if len(d.data) > 0 { // journals of earlier versions did not tell
		l.Winner = Winner{SHA256: d.sum(), Path: d.text(), Version: uint64(d.int()), Deleted: d.int() == 1}
	}
	return l
}

// An order is a path that was written here and is to be sent in its turn.
type order struct {
	sequence int64
	path     string
}

func appendOrder(dst []byte, kind byte, o order) []byte {
	return appendText(binary.AppendVarint(append(dst, kind), o.sequence), o.path)
}

func (d *decoder) order() order { return order{sequence: d.int(), path: d.text()} }
