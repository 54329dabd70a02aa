package vfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// drawList draws a list, and how many bytes are before it in its blob.
func drawList(t *rapid.T) (l *chunkList, own int64) {
	l = &chunkList{size: rapid.Int64Range(1, 40*ChunkSize).Draw(t, "size")}
	for i := range rapid.IntRange(0, 3).Draw(t, "shared") {
		l.shared = append(l.shared, Share{string(rune('a' + i)), rapid.Int64Range(50*ChunkSize, 60*ChunkSize).Draw(t, "bytes")})
	}
	own = rapid.Int64Range(50*ChunkSize, 60*ChunkSize).Draw(t, "own")
	for i := range chunkCount(l.size) {
		at := spot{rapid.IntRange(0, len(l.shared)).Draw(t, "blob"), rapid.Int64Range(0, 49*ChunkSize).Draw(t, "offset")}
		if i > 0 && rapid.Bool().Draw(t, "goes on") {
			before := l.spots[i-1]
			if next := before.offset + ChunkSize; next <= 49*ChunkSize {
				at = spot{before.blob, next}
			}
		}
		l.spots = append(l.spots, at)
		l.sums = append(l.sums, sha256.Sum256([]byte{byte(i)}))
		if i > 0 && i%stateEvery == 0 {
			l.states = append(l.states, state{i, []byte("state")})
		}
	}
	return l, own
}

func TestAListIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, own := drawList(t)
		got, err := parseChunkList(l.encode(), l.size, own)
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Fatalf("%+v instead of %+v, %v", got, l, err)
		}
	})
}

// Whatever a disk does to a list, it is not taken for one.
func TestADamagedListIsNoticed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, own := drawList(t)
		data := l.encode()
		i := rapid.IntRange(0, len(data)-1).Draw(t, "at")
		flipped := bytes.Clone(data)
		flipped[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		for what, bad := range map[string][]byte{"a flipped bit": flipped, "a cut": data[:i], "more": append(bytes.Clone(data), 0)} {
			if got, err := parseChunkList(bad, l.size, own); !errors.Is(err, errBadList) {
				t.Fatalf("%s: %+v, %v", what, got, err)
			}
		}
		for _, size := range []int64{0, -1, l.size + 1, math.MaxInt64} {
			if got, err := parseChunkList(data, size, own); !errors.Is(err, errBadList) {
				t.Fatalf("of %d bytes: %+v, %v", size, got, err)
			}
		}
	})
}

// numbers is a list of numbers after the magic, with the right checksum.
func numbers(list ...uint64) []byte {
	b := []byte(listMagic)
	for _, n := range list {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func sealed(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b[:len(b):len(b)], sum[:]...)
}

func TestAListThatMakesNoSenseIsRefused(t *testing.T) {
	const own = 4 * ChunkSize
	sums := make([]byte, 4*len(Sum{}))
	list := func(b []byte) []byte { return sealed(append(b, sums...)) }
	if _, err := parseChunkList(list(numbers(ChunkSize, own, 0, 1, 0, 0, 0, 4)), own, own); err != nil {
		t.Fatalf("what makes sense is refused: %v", err)
	}
	for what, data := range map[string][]byte{
		"another magic":             list(append([]byte("aibridge chunks 9\n"), numbers(ChunkSize, own, 0, 1, 0, 0, 0, 4)[len(listMagic):]...)),
		"another chunk size":        list(numbers(ChunkSize/2, own, 0, 1, 0, 0, 0, 4)),
		"too few chunks":            list(numbers(ChunkSize, own, 0, 1, 0, 0, 0, 3)),
		"too many chunks":           list(numbers(ChunkSize, own, 0, 1, 0, 0, 0, 5)),
		"an empty extent":           list(numbers(ChunkSize, own, 0, 2, 0, 0, 0, 0, 0, 0, 4)),
		"a blob that is not there":  list(numbers(ChunkSize, own, 0, 1, 0, 1, 0, 4)),
		"chunks behind the blob":    list(numbers(ChunkSize, own, 0, 1, 0, 0, 1, 4)),
		"an offset that overflows":  list(numbers(ChunkSize, own, 0, 1, 0, 0, math.MaxInt64, 4)),
		"an offset below 0":         list(numbers(ChunkSize, own, 0, 1, 0, 0, math.MaxUint64, 4)),
		"more extents than chunks":  list(numbers(ChunkSize, own, 0, 5, 0, 0, 0, 4)),
		"more blobs than are named": list(numbers(ChunkSize, own, maxListShared+1, 1, 0, 0, 0, 4)),
		"states without order":      list(append(numbers(ChunkSize, own, 0, 1, 2, 0, 0, 4), 2, 0, 1, 0)),
		"no sums":                   sealed(numbers(ChunkSize, own, 0, 1, 0, 0, 0, 4)),
		"more after the sums":       list(numbers(ChunkSize, own, 0, 1, 0, 0, 0, 4, 7)),
		"nothing":                   sealed(nil),
	} {
		if l, err := parseChunkList(data, own, own); !errors.Is(err, errBadList) {
			t.Errorf("%s: %+v, %v", what, l, err)
		}
	}
}

// FuzzChunkList reads lists whose checksum is right and whose rest is anything.
func FuzzChunkList(f *testing.F) {
	f.Add(numbers(ChunkSize, 100, 0, 1, 0, 0, 0, 1), int64(100), int64(100))
	f.Add((&chunkList{
		size: 2 * ChunkSize, shared: []Share{{"a", ChunkSize}}, sums: make([]Sum, 2), spots: []spot{{0, 0}, {1, 0}}, states: []state{{1, []byte("x")}},
	}).encode(), int64(2*ChunkSize), int64(ChunkSize))
	f.Fuzz(func(t *testing.T, data []byte, size, own int64) {
		if len(data) > sha256.Size && sha256.Sum256(data[:len(data)-sha256.Size]) == [sha256.Size]byte(data[len(data)-sha256.Size:]) {
			data = data[:len(data)-sha256.Size]
		}
		l, err := parseChunkList(sealed(data), size, own)
		if err != nil {
			return
		}
		if len(l.sums) != chunkCount(size) || len(l.spots) != len(l.sums) {
			t.Fatalf("%d sums and %d spots of %d bytes", len(l.sums), len(l.spots), size)
		}
		for i, at := range l.spots {
			room := own
			if at.blob > 0 {
				room = l.shared[at.blob-1].Size
			}
			if at.offset < 0 || at.offset+chunkLength(size, i) > room {
				t.Fatalf("chunk %d is at %+v, where there are %d bytes", i, at, room)
			}
		}
		if again, err := parseChunkList(l.encode(), size, own); err != nil || !reflect.DeepEqual(again, l) {
			t.Fatalf("%+v, and written again %+v, %v", l, again, err)
		}
	})
}
