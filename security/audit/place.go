package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
)

// A place in a trail is between two entries: behind some entries of a block. Blocks keep
// their numbers and their entries; the last one of a log may get more.
type place struct {
	block   uint64
	entries int // of the block, before the place; wholeBlock for all there are
}

// wholeBlock is the number of entries of a block that was not counted.
const wholeBlock = -1

// A mark stands for a bridge in a cursor: ids of any length get marks of one length.
type mark [8]byte

func markOf(bridge string) mark {
	sum := sha256.Sum256([]byte(bridge))
	return mark(sum[:])
}

// A cursor holds the position of a query in the trails of all bridges, and its
// direction. A backward one has no place for trails that are read to their end.
type cursor struct {
	forward bool
	places  map[mark]place
}

// Bounds of a query.
const (
	// maxChains is the number of trails that a query reads at most.
	maxChains = 500
	// maxCursor is the length of the text of a cursor over as many.
	maxCursor = 20_000
)

// The first letter of a cursor.
const (
	goesForward  = 'f'
	goesBackward = 'b'
)

// String is the text of the cursor: base64url of the direction and, in the order of
// their marks, the mark, block and entries of each place.
func (c cursor) String() string {
	type marked struct {
		mark
		place
	}
	var sorted []marked
	for m, p := range c.places {
		sorted = append(sorted, marked{m, p})
	}
	slices.SortFunc(sorted, func(a, b marked) int { return bytes.Compare(a.mark[:], b.mark[:]) })
	text := []byte{goesBackward}
	if c.forward {
		text[0] = goesForward
	}
	for _, p := range sorted {
		text = append(text, p.mark[:]...)
		text = binary.AppendUvarint(text, p.block)
		text = binary.AppendUvarint(text, uint64(p.entries+1))
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

var errCursor = errors.New("is not one that a query returned")

// parseCursor reads what [cursor.String] wrote, and nothing else.
func parseCursor(text string) (cursor, error) {
	if len(text) > maxCursor {
		return cursor{}, errCursor
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) == 0 || data[0] != goesForward && data[0] != goesBackward {
		return cursor{}, errCursor
	}
	c := cursor{forward: data[0] == goesForward, places: make(map[mark]place)}
	for data = data[1:]; len(data) > 0; {
		if len(data) < len(mark{}) {
			return cursor{}, errCursor
		}
		m := mark(data)
		block, n := binary.Uvarint(data[len(m):])
		entries, k := binary.Uvarint(data[len(m)+max(n, 0):])
		if n <= 0 || k <= 0 || entries > maxBlockEntries {
			return cursor{}, errCursor
		}
		c.places[m] = place{block, int(entries) - 1}
		data = data[len(m)+n+k:]
	}
	if c.String() != text { // in another order, or twice, or padded
		return cursor{}, errCursor
	}
	return c, nil
}

// maxBlockEntries is more than there are entries in a block.
const maxBlockEntries = 1 << 32
