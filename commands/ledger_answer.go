package commands

import (
	"encoding/binary"
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// An answerLog keeps answers as bytes, in the order they were given. It is a
// list of pages; the oldest is given up as a whole, when its last answer was
// dropped or when it has to make room.
type answerLog struct {
	pages []*answerPage // oldest first
	first uint32        // number of the first, modulo 2³²
	size  int           // of a page, unless a single answer needs more
	bytes int           // that the pages take
	spare []byte        // of a page that was given up
}

type answerPage struct {
	data  []byte
	live  int    // answers in it that were not dropped
	reads []slot // of records of requests that only read, dropped or not
}

// An answerAt is the place of an answer: the number of its page, and the offset in it.
type answerAt struct {
	page   uint32
	offset int32
}

var noAnswer = answerAt{offset: -1}

// An answer is: the slot of its record, the length of the result, that of the
// rest, the result, the rest. The rest is a response envelope without the
// result, and mostly empty.
const answerHead = 4 + 4 + 4

// write adds an answer, unless it is larger than all of them may be.
func (l *answerLog) write(s slot, effect Effect, out outcome, most int) answerAt {
	var rest []byte
	if out.err != nil || len(out.warnings) > 0 {
		rest = (&protocol.Response{ID: "-", Err: out.err, Metadata: protocol.Metadata{Warnings: out.warnings}}).Append(nil)
	}
	n := answerHead + len(out.result) + len(rest)
	if n > most {
		return noAnswer
	}
	page := l.room(n)
	at := answerAt{l.first + uint32(len(l.pages)) - 1, int32(len(page.data))}
	b := binary.LittleEndian.AppendUint32(page.data, uint32(s))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(out.result)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(rest)))
	page.data = append(append(b, out.result...), rest...)
	page.live++
	if effect == Read {
		page.reads = append(page.reads, s)
	}
	return at
}

// room returns the newest page with n bytes to spare.
func (l *answerLog) room(n int) *answerPage {
	if k := len(l.pages); k > 0 {
		if p := l.pages[k-1]; cap(p.data)-len(p.data) >= n {
			return p
		}
	}
	for len(l.pages) > 0 && l.pages[0].live == 0 {
		l.cut()
	}
	p := &answerPage{data: l.spare}
	l.spare = nil
	if cap(p.data) < n {
		p.data = make([]byte, 0, max(n, l.size))
	}
	l.pages = append(l.pages, p)
	l.bytes += cap(p.data)
	return p
}

// read returns an answer. What it returns is a copy.
func (l *answerLog) read(at answerAt) (out outcome, ok bool) {
	if !l.has(at) {
		return out, false
	}
	_, result, rest, _ := l.pages[at.page-l.first].cut(int(at.offset))
	out.result = slices.Clone(result)
	if len(rest) > 0 {
		r, err := protocol.DecodeResponse(rest, protocol.Limits{MaxBytes: len(rest)})
		if err != nil {
			return out, false // never: the ledger wrote it
		}
		out.err, out.warnings = r.Err, r.Metadata.Warnings
	}
	return out, true
}

// cut takes the answer at an offset apart.
func (p *answerPage) cut(offset int) (s slot, result, rest []byte, next int) {
	head, body := p.data[offset:], p.data[offset+answerHead:]
	s = slot(binary.LittleEndian.Uint32(head))
	n, m := int(binary.LittleEndian.Uint32(head[4:])), int(binary.LittleEndian.Uint32(head[8:]))
	return s, body[:n], body[n : n+m], offset + answerHead + n + m
}

// has reports whether an answer is still there.
func (l *answerLog) has(at answerAt) bool {
	return at != noAnswer && at.page-l.first < uint32(len(l.pages))
}

// drop gives an answer up, if it is there. Its bytes go with the page.
func (l *answerLog) drop(at answerAt) {
	if !l.has(at) {
		return
	}
	l.pages[at.page-l.first].live--
	l.trim()
}

// trim gives up the oldest pages of which all answers were dropped.
func (l *answerLog) trim() {
	for len(l.pages) > 1 && l.pages[0].live == 0 {
		l.cut()
	}
}

// cut gives the oldest page up.
func (l *answerLog) cut() {
	p := l.pages[0]
	l.bytes -= cap(p.data)
	if cap(p.data) == l.size {
		l.spare = p.data[:0]
	}
	l.pages[0] = nil
	l.pages = l.pages[1:]
	l.first++
}
