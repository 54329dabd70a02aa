package schema

import (
	"bytes"
	"math"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
)

// Here strings and numbers are read without making values of them. This is stricter than
// decode: input that is not JSON is refused, even if it was checked before.

// rawString reads the rest of a string whose opening quote was taken, and
// returns it with its escapes: unescaped it has saved characters less.
func (p *parser) rawString() (raw []byte, saved int, ok bool) {
	from := p.at
	for at := from; at < len(p.text); at++ {
		if at += protocol.Plain(p.text[at:]); at == len(p.text) {
			break
		}
		switch c := p.text[at]; {
		case c == '"':
			p.at = at + 1
			return p.text[from:at], saved, true
		case c == '\\':
			size, characters := escape(p.text[at:])
			if size == 0 {
				return nil, 0, false
			}
			at += size - 1
			saved += size - characters
		case c < ' ':
			return nil, 0, false
		}
	}
	return nil, 0, false
}

// escape measures the escape sequence that text begins with, one character or
// a pair of surrogates. Its size is 0 if it is none, or half a pair.
func escape(text []byte) (size, characters int) {
	if len(text) < 2 {
		return 0, 0
	}
	if text[1] != 'u' {
		if bytes.IndexByte([]byte(`"\/bfnrt`), text[1]) < 0 {
			return 0, 0
		}
		return 2, 1
	}
	switch code, ok := codeUnit(text); {
	case !ok:
		return 0, 0
	case code < 0xD800 || code > 0xDFFF:
		return 6, 1
	case code < 0xDC00:
		if low, ok := codeUnit(text[6:]); ok && 0xDC00 <= low && low <= 0xDFFF {
			return 12, 1
		}
	}
	return 0, 0
}

// codeUnit reads the \uXXXX that text begins with.
func codeUnit(text []byte) (uint64, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return code, err == nil
}

// A numeral is a number as it is written.
type numeral struct {
	text     []byte
	mantissa uint64 // its digits, if they are at most shortDigits
	digits   int    // of the mantissa
	fraction int    // of these, after the point
	exponent bool
	plain    bool // nothing but digits, and perhaps a sign
}

// float is the nearest float64, if there is a finite one.
func (x numeral) float() (float64, bool) {
	if x.digits > shortDigits || x.exponent {
		f, err := strconv.ParseFloat(string(x.text), 64)
		return f, err == nil
	}
	f := float64(x.mantissa)
	if x.fraction > 0 {
		f /= math.Pow10(x.fraction) // both are exact, so this rounds once
	}
	if x.text[0] == '-' {
		f = -f
	}
	return f, true
}

// numeral reads a number of at most maxDigits characters.
func (p *parser) numeral() (numeral, bool) {
	from := p.at
	p.take('-', '-')
	var x numeral
	leading := p.at
	p.digits(&x)
	if x.digits == 0 || x.digits > 1 && p.text[leading] == '0' {
		return numeral{}, false
	}
	whole := x.digits
	if p.take('.', '.') {
		p.digits(&x)
		if x.fraction = x.digits - whole; x.fraction == 0 {
			return numeral{}, false
		}
	}
	if p.take('e', 'E') {
		p.take('+', '-')
		var power numeral
		if p.digits(&power); power.digits == 0 {
			return numeral{}, false
		}
		x.exponent = true
	}
	x.text = p.text[from:p.at]
	x.plain = x.fraction == 0 && !x.exponent
	return x, len(x.text) <= maxDigits
}

// take reads one byte if it is a or b.
func (p *parser) take(a, b byte) bool {
	if p.at == len(p.text) || p.text[p.at] != a && p.text[p.at] != b {
		return false
	}
	p.at++
	return true
}

// digits reads digits and adds them to the mantissa.
func (p *parser) digits(x *numeral) {
	for p.at < len(p.text) && '0' <= p.text[p.at] && p.text[p.at] <= '9' {
		x.mantissa = x.mantissa*10 + uint64(p.text[p.at]-'0')
		x.digits++
		p.at++
	}
}
