// Package fields takes binary encodings apart: the records and messages of bridges,
// whose fields follow one another without names.
package fields

import "encoding/binary"

// A Reader takes one field after the other off an encoding. After one that is not
// there, or makes no sense, all that follow are zero and Bad stays true, so that a
// caller asks once, at the end.
type Reader struct {
	Left []byte // not yet read
	Bad  bool
}

// Of is a reader of an encoding, to whose bytes its results may refer.
func Of(encoded []byte) Reader { return Reader{Left: encoded} }

// Fail has the encoding be bad.
func (r *Reader) Fail() { r.Bad, r.Left = true, nil }

// More reports whether something is left to read.
func (r *Reader) More() bool { return len(r.Left) > 0 && !r.Bad }

// Take reads n bytes. They are not copied.
func (r *Reader) Take(n int) []byte {
	if n > len(r.Left) {
		r.Fail()
		return nil
	}
	v := r.Left[:n]
	r.Left = r.Left[n:]
	return v
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if v := r.Take(1); v != nil {
		return v[0]
	}
	return 0
}

// Fixed reads a number of eight bytes, the lowest first.
func (r *Reader) Fixed() uint64 {
	if v := r.Take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

// Uvarint reads a number that [binary.AppendUvarint] wrote.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.Left)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Left = r.Left[n:]
	return v
}

// Varint reads a number that [binary.AppendVarint] wrote.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.Left)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Left = r.Left[n:]
	return v
}

// Count reads how many things follow that take at least so many bytes each: no
// more than there can be.
func (r *Reader) Count(least int) int {
	n := r.Uvarint()
	if n > uint64(len(r.Left)/least) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Bytes reads a field of [AppendText]. The bytes are not copied.
func (r *Reader) Bytes() []byte { return r.Take(r.Count(1)) }

// Text reads a field of [AppendText].
func (r *Reader) Text() string { return string(r.Bytes()) }

// AppendText writes the length of a text, and the text.
func AppendText[T ~string](dst []byte, text T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}
