package relay

import (
	"bytes"
	"testing"
)

func FuzzFrame(f *testing.F) {
	f.Add((&frame{hello: true, from: 1, to: 2, received: 9}).append(nil))
	f.Add((&frame{from: 1, to: 2, start: 3, offset: 4, received: 9, accepted: 8, body: []byte("body")}).append(nil))
	f.Add((&frame{control: true, resend: true, from: 1, to: 2, offset: 4, received: 9, accepted: 8, body: []byte("body")}).append(nil))
	f.Add((&frame{ordered: true, from: 1, to: 2, start: 3, offset: 4, received: 9, accepted: 8, after: 7, body: []byte("body")}).append(nil))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var got frame
		if got.decode(encoded) != nil {
			return
		}
		if again := got.append(nil); !bytes.Equal(again, encoded) {
			t.Fatalf("%x was read and is written as %x", encoded, again)
		}
	})
}

// FuzzRecords cuts a stream into two frames: what it is cut into makes no
// difference, and nothing in it makes the reader fail but by an error.
func FuzzRecords(f *testing.F) {
	var stream []byte
	for _, body := range []string{"", "one", "a longer record"} {
		stream = append(appendRecord(stream, recMessage, len(body)), body...)
	}
	f.Add(stream, 5)
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 1}, 1)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		if cut < 0 || cut > len(stream) {
			return
		}
		whole, first := read(stream)
		parts, second := read(stream[:cut], stream[cut:])
		if first != second || len(whole) != len(parts) {
			t.Fatalf("in one frame: %q, %v; in two: %q, %v", whole, first, parts, second)
		}
	})
}

// read is the content of the records of a stream, and whether it makes sense.
func read(frames ...[]byte) (all []string, sense bool) {
	var in inbound
	in.begin(0)
	for _, f := range frames {
		err := in.records(f, func(kind byte, body []byte, end uint64) error {
			all = append(all, string(append([]byte{kind}, body...)))
			return nil
		})
		if err != nil {
			return all, false
		}
	}
	return all, true
}
