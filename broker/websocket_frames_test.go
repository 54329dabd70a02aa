package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// masked is a frame of a client.
func masked(first byte, mask uint32, payload []byte) []byte {
	b := appendFrameHeader(nil, first&0xF, len(payload))
	b[0] = first
	b[1] |= wsMasked
	b = binary.LittleEndian.AppendUint32(b, mask)
	at := len(b)
	b = append(b, payload...)
	for i := range payload {
		b[at+i] ^= byte(mask >> (8 * (i % 4)))
	}
	return b
}

// unframed has a reader take frames in pieces, and returns the payload, the answers
// and the end.
func unframed(frames []byte, pieces func(left int) int) (data []byte, answers []string, err error) {
	var r wsReader
	answer := func(opcode byte, payload []byte) error {
		answers = append(answers, fmt.Sprintf("%x %x", opcode, payload))
		return nil
	}
	for len(frames) > 0 && err == nil {
		k := pieces(len(frames))
		piece := bytes.Clone(frames[:k])
		frames = frames[k:]
		var n int
		n, err = r.take(piece, answer)
		data = append(data, piece[:n]...)
	}
	return data, answers, err
}

func whole(left int) int { return left }

func TestFramesThatBreakTheProtocol(t *testing.T) {
	t.Parallel()
	long := func(n int) []byte { return make([]byte, n) }
	unmasked := masked(wsFinal|wsBinary, 0, []byte("x"))
	unmasked[1] &^= wsMasked
	for name, test := range map[string]struct {
		frames []byte
		status uint16
	}{
		"text":                           {masked(wsFinal|wsText, 1, nil), wsUnsupported},
		"not masked":                     {unmasked, wsBreach},
		"a reserved bit":                 {masked(wsFinal|0x40|wsBinary, 1, nil), wsBreach},
		"a reserved opcode":              {masked(wsFinal|0x3, 1, nil), wsBreach},
		"a reserved opcode of control":   {masked(wsFinal|0xB, 1, nil), wsBreach},
		"a continuation of nothing":      {masked(wsFinal|wsContinuation, 1, nil), wsBreach},
		"a message within a message":     {append(masked(wsBinary, 1, nil), masked(wsFinal|wsBinary, 1, nil)...), wsBreach},
		"a ping in pieces":               {masked(wsPing, 1, nil), wsBreach},
		"a long ping":                    {masked(wsFinal|wsPing, 1, long(mostControl+1)), wsBreach},
		"a length longer than needed":    {[]byte{wsFinal | wsBinary, wsMasked | 126, 0, 125, 0, 0, 0, 0}, wsBreach},
		"a length much longer than that": {[]byte{wsFinal | wsBinary, wsMasked | 127, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0}, wsBreach},
		"a negative length":              {[]byte{wsFinal | wsBinary, wsMasked | 127, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, wsBreach},
		"half a status":                  {masked(wsFinal|wsClose, 1, []byte{3}), wsBreach},
		"a status of nobody":             {masked(wsFinal|wsClose, 1, closing(1005, "")), wsBreach},
		"a reason that is not text":      {masked(wsFinal|wsClose, 1, closing(wsNormal, "\xff")), wsNotText},
	} {
		for _, size := range []int{1, len(test.frames)} {
			_, answers, err := unframed(test.frames, func(left int) int { return min(left, size) })
			if of, ok := errors.AsType[*breachError](err); !ok || of.status != test.status || len(answers) > 0 {
				t.Errorf("%s in pieces of %d: %v, answered by %q", name, size, err, answers)
			}
		}
	}
}

func TestControlFramesAreAnswered(t *testing.T) {
	t.Parallel()
	var b []byte
	b = append(b, masked(wsBinary, 0x01020304, []byte("begins, "))...)
	b = append(b, masked(wsFinal|wsPing, 7, []byte("there?"))...)
	b = append(b, masked(wsFinal|wsPong, 7, []byte("never asked"))...)
	b = append(b, masked(wsFinal|wsContinuation, 9, []byte("ends"))...)
	b = append(b, masked(wsFinal|wsClose, 9, closing(wsNormal, "bye"))...)
	b = append(b, masked(wsFinal|wsBinary, 9, []byte("too late"))...)
	data, answers, err := unframed(b, whole)
	want := fmt.Sprintf("a %x, 8 03e8", "there?")
	if string(data) != "begins, ends" || err != io.EOF || strings.Join(answers, ", ") != want {
		t.Errorf("%q, answered by %q, want %q, %v", data, answers, want, err)
	}
}

// TestFramesInPieces: whatever a client says comes out the same, however frames cut
// it and reads cut these.
func TestFramesInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var frames, want []byte
		var pongs []string
		within := false
		for range rapid.IntRange(1, 8).Draw(t, "frames") {
			mask := rapid.Uint32().Draw(t, "mask")
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				payload := rapid.SliceOfN(rapid.Byte(), 0, mostControl).Draw(t, "ping")
				frames = append(frames, masked(wsFinal|wsPing, mask, payload)...)
				pongs = append(pongs, fmt.Sprintf("a %x", payload))
				continue
			}
			size := rapid.OneOf(rapid.IntRange(0, 20), rapid.SampledFrom([]int{125, 126, 127, 1<<16 - 1, 1 << 16})).Draw(t, "size")
			payload := bytes.Repeat([]byte{rapid.Byte().Draw(t, "content"), byte(size)}, size/2+1)[:size]
			first := byte(wsBinary)
			if within {
				first = wsContinuation
			}
			if within = rapid.Bool().Draw(t, "goes on"); !within {
				first |= wsFinal
			}
			frames = append(frames, masked(first, mask, payload)...)
			want = append(want, payload...)
		}
		data, answers, err := unframed(frames, func(left int) int {
			return min(left, rapid.OneOf(rapid.IntRange(1, 10), rapid.IntRange(1, 1<<17)).Draw(t, "piece"))
		})
		if err != nil || !bytes.Equal(data, want) || strings.Join(answers, ",") != strings.Join(pongs, ",") {
			t.Fatalf("%d bytes, want %d; answered by %q, want %q; %v", len(data), len(want), answers, pongs, err)
		}
	})
}

// FuzzFrames: bytes of anybody have one meaning, in one piece or byte by byte, and
// never more payload than there are bytes.
func FuzzFrames(f *testing.F) {
	f.Add(masked(wsFinal|wsBinary, 1, []byte("packet")))
	f.Add(append(masked(wsFinal|wsPing, 2, []byte("p")), masked(wsFinal|wsClose, 3, closing(wsNormal, ""))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		one, answersOne, errOne := unframed(b, whole)
		each, answersEach, errEach := unframed(b, func(int) int { return 1 })
		if !bytes.Equal(one, each) || fmt.Sprint(answersOne, errOne) != fmt.Sprint(answersEach, errEach) {
			t.Errorf("%x %q %v, byte by byte %x %q %v", one, answersOne, errOne, each, answersEach, errEach)
		}
	})
}

// BenchmarkUnmask is the cost of a client's mask.
func BenchmarkUnmask(b *testing.B) {
	payload := make([]byte, 4<<10)
	b.SetBytes(int64(len(payload)))
	var r wsReader
	for b.Loop() {
		r.unmask(payload, payload)
	}
}
