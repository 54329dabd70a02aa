package fields_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/aibridge/aibridge/internal/fields"
)

func encoded() []byte {
	b := []byte{7}
	b = binary.LittleEndian.AppendUint64(b, 1<<63)
	b = binary.AppendVarint(binary.AppendUvarint(b, 300), -300)
	b = fields.AppendText(fields.AppendText(b, "a text"), "")
	return append(b, "end"...)
}

type read struct {
	first  byte
	fixed  uint64
	u      uint64
	v      int64
	text   string
	none   string
	rest   string
	better bool
}

func readAll(b []byte) read {
	r := fields.Of(b)
	got := read{first: r.Byte(), fixed: r.Fixed(), u: r.Uvarint(), v: r.Varint(), text: r.Text(), none: r.Text(), rest: string(r.Take(3))}
	got.better = !r.Bad
	return got
}

func TestFieldsAreReadInOrder(t *testing.T) {
	t.Parallel()
	want := read{7, 1 << 63, 300, -300, "a text", "", "end", true}
	if got := readAll(encoded()); got != want {
		t.Errorf("%+v", got)
	}
}

// An encoding that is cut off anywhere is bad, and what follows the cut is zero.
func TestACutIsSeen(t *testing.T) {
	t.Parallel()
	whole := encoded()
	for n := range whole {
		if got := readAll(whole[:n]); got.better || got.rest != "" {
			t.Errorf("after %d bytes: %+v", n, got)
		}
	}
}

// No count is believed that needs more bytes than there are.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, left uint64
		least   int
		want    int
		bad     bool
	}{
		{3, 12, 4, 3, false}, {3, 11, 4, 0, true}, {1 << 63, 100, 1, 0, true}, {0, 0, 4, 0, false},
	} {
		r := fields.Of(append(binary.AppendUvarint(nil, c.n), bytes.Repeat([]byte{0}, int(c.left))...))
		if got := r.Count(c.least); got != c.want || r.Bad != c.bad {
			t.Errorf("%+v: %d, %v", c, got, r.Bad)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(encoded())
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := fields.Of(b)
		for r.More() {
			before := len(r.Left)
			switch r.Byte() % 5 {
			case 0:
				r.Fixed()
			case 1:
				r.Uvarint()
			case 2:
				r.Varint()
			case 3:
				r.Text()
			case 4:
				r.Count(2)
			}
			if len(r.Left) >= before && !r.Bad {
				t.Fatal("nothing was read")
			}
		}
	})
}
