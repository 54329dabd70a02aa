package protocol

import (
	"bytes"
	"slices"
	"time"
)

// A Pattern is an envelope that was read before, with holes where the envelopes of one
// sender differ: the id, the trace, the timestamp, the timeout and the body. An envelope
// that fits has the same bytes around the holes, so that only the holes are still to be
// checked; one that does not fit may be right as well. A pattern is immutable.
type Pattern struct {
	texts    [][]byte // between the holes, one more than there are
	holes    []hole
	room     int // for nesting, within the body
	maxBytes int
	response bool

	around, behind int // of the body, that belong to params
	request        Request
}

// A hole is one part of an envelope.
type hole uint8

const (
	holeID hole = iota
	holeTrace
	holeTimestamp
	holeTimeout
	holeBody
)

// A Fit is an envelope that fits a pattern. Its parts alias the data.
type Fit struct {
	ID, Trace []byte
	Timestamp int64
	Timeout   time.Duration // 0 if there is none
	Body      []byte        // the hole of the params within params or of all params of a request, the result of a response
	Params    []byte        // all params of a request
}

// maxPatternText bounds a pattern, in bytes.
const maxPatternText = 1 << 10

// maxHoleDigits is the length of a number at most that fits: timestamps of the next
// 30 000 years have fifteen digits or less.
const maxHoleDigits = 15

// RequestPattern makes a pattern of a request that [DecodeRequest] reads, whose
// body are its params or, if inner, the member params within them. It is nil for
// a request of an unusual form: with old forms, an extension, escapes.
func RequestPattern(data []byte, limits Limits, inner bool) *Pattern {
	e := envelope{scanner: scanner{data: data}}
	e.scan(limits)
	p := &Pattern{}
	e.request(&p.request)
	body := fParams
	if inner {
		body = fInner
	}
	if e.err != nil || len(e.old) > 0 || p.request.Extension != nil || p.request.Metadata.MinRevision != 0 || e.fields[fParams].kind != kindObject || e.fields[body].kind != kindObject {
		return nil
	}
	around, within := e.fields[fParams], e.fields[body]
	p.around, p.behind = int(within.start-around.start), int(around.end-within.end)
	p.request.Params = nil
	depth := 1
	if inner {
		depth = 2
	}
	return p.cut(&e, limits, body, depth)
}

// ResponsePattern makes a pattern of a successful response that [ViewReply]
// reads. It is nil for one of an unusual form.
func ResponsePattern(data []byte, limits Limits) *Pattern {
	e := envelope{scanner: scanner{data: data}, view: true}
	e.scan(limits)
	if e.err != nil || e.sniff() != formResponse || e.has(fResponseTo) || !e.has(fResult) {
		return nil
	}
	if failed := e.response().Err != nil; failed || e.err != nil || len(e.old) > 0 {
		return nil
	}
	p := &Pattern{response: true}
	return p.cut(&e, limits, fResult, 1)
}

// cut makes the holes. The body stands so deep in objects.
func (p *Pattern) cut(e *envelope, limits Limits, body field, depth int) *Pattern {
	limits = limits.withDefaults()
	p.room, p.maxBytes = limits.MaxDepth-depth, limits.MaxBytes
	type part struct {
		hole
		span
	}
	parts := []part{{holeID, e.fields[fID]}, {holeBody, e.spanOf(body)}}
	for h, f := range map[hole]field{holeTrace: fTrace, holeTimestamp: fTimestamp, holeTimeout: fTimeout} {
		if e.fields[f].kind != kindAbsent {
			parts = append(parts, part{h, e.fields[f]})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return int(a.start - b.start) })
	var at, size int32
	for _, f := range parts {
		if !f.fits(f.hole) {
			return nil
		}
		p.texts = append(p.texts, bytes.Clone(e.data[at:f.start]))
		p.holes = append(p.holes, f.hole)
		size, at = size+f.start-at, f.end
	}
	p.texts = append(p.texts, bytes.Clone(e.data[at:]))
	if int(size)+len(e.data)-int(at) > maxPatternText {
		return nil
	}
	if !p.Fit(e.data, new(Fit)) {
		return nil
	}
	return p
}

// spanOf is the place of a value, with the quotes of a string.
func (e *envelope) spanOf(f field) span {
	v := e.fields[f]
	if v.kind == kindString {
		v.start, v.end = v.start-1, v.end+1
	}
	return v
}

// fits reports whether a value can be a hole of a kind.
func (v span) fits(h hole) bool {
	switch h {
	case holeID, holeTrace:
		return v.kind == kindString && !v.escaped
	case holeTimestamp, holeTimeout:
		return v.kind == kindNumber
	default:
		return v.kind > kindNull
	}
}

// Fill makes the request of what fits: it has copies of its parts, of the params in
// the room if that is large enough. The body is that of its params.
func (p *Pattern) Fill(r *Request, f *Fit, room []byte) (body []byte) {
	*r = p.request
	t := texts([...][]byte{f.ID, f.Trace, nil, nil})
	r.ID, r.Metadata.TraceID, r.Timestamp = t[0], t[1], f.Timestamp
	if f.Timeout > 0 {
		r.Metadata.Timeout = f.Timeout
	}
	r.Params = append(room[:0], f.Params...)
	return r.Params[p.around : len(r.Params)-p.behind]
}

// Fit reads an envelope that fits: [DecodeRequest] or [ViewReply] would read it
// without an error, and as the pattern's with the parts that are noted in f. Of one that
// does not fit, some of f may have been set.
func (p *Pattern) Fit(data []byte, f *Fit) bool {
	if len(data) > p.maxBytes {
		return false
	}
	at := 0
	for i, h := range p.holes {
		text := p.texts[i]
		if len(data)-at < len(text) || string(data[at:at+len(text)]) != string(text) {
			return false
		}
		at += len(text)
		n := 0
		switch h {
		case holeID:
			if n = fitText(data[at:], MaxIDLength); n <= 0 {
				return false
			}
			f.ID = data[at : at+n]
		case holeTrace:
			n = fitText(data[at:], MaxTraceLength)
			if n < 0 || n == 0 && p.response {
				return false
			}
			f.Trace = data[at : at+n]
		case holeTimestamp:
			f.Timestamp, n = fitWhole(data[at:], maxTimestamp)
		case holeTimeout:
			var ms int64
			if ms, n = fitWhole(data[at:], MaxTimeout.Milliseconds()); ms == 0 {
				return false
			}
			f.Timeout = time.Duration(ms) * time.Millisecond
		case holeBody:
			if n = p.fitBody(data, at); n < 0 || at+n+p.behind > len(data) {
				return false
			}
			f.Body, f.Params = data[at:at+n], data[at-p.around:at+n+p.behind]
		}
		if n < 0 {
			return false
		}
		at += n
	}
	return string(data[at:]) == string(p.texts[len(p.holes)])
}

// fitText is the length of the plain ASCII text that the data begin with, -1 if
// it is too long.
func fitText(data []byte, most int) int {
	n := run(data[:min(len(data), most+1)], tops)
	if n > most || bytes.IndexByte(data[:n], 0x7f) >= 0 {
		return -1
	}
	return n
}

// fitWhole is the number that the data begin with and its length, -1 if there is
// none of the usual form, or it is too large.
func fitWhole(data []byte, most int64) (value int64, n int) {
	for n < len(data) && n <= maxHoleDigits && isDigit(data[n]) {
		value = value*10 + int64(data[n]-'0')
		n++
	}
	if n == 0 || n > maxHoleDigits || value > most || data[0] == '0' && n > 1 {
		return 0, -1
	}
	return value, n
}

// fitBody is the length of the value that begins at a place, -1 if there is none
// that fits.
func (p *Pattern) fitBody(data []byte, at int) int {
	if at == len(data) || data[at] != '{' && (!p.response || data[at] == 'n') {
		return -1
	}
	var s scanner // set by fields: a literal would be made elsewhere and copied
	s.data, s.pos, s.room = data, at, p.room
	if _, ok := s.value(noScope); !ok {
		return -1
	}
	return s.pos - at
}
