package audit

import (
	"net/netip"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/protocol"
)

// A likeness is what the entries of calls that are alike have in common: the numbers of
// who and what in a block, and what they stand for as far as it is not the same for all
// calls with one memo. It is guarded by the log's lock.
type likeness struct {
	block     uint32
	who, what uint64

	principal *protocol.Principal
	sender    string
	door      string
	address   netip.Addr
}

// fits reports whether the entry of a call in a block has these numbers.
func (l *likeness) fits(a *commands.Audited, block uint32) bool {
	return l.block == block && l.principal == a.Principal && l.address == a.Address && l.door == a.Door && l.sender == a.SenderID
}

// A memoRecord is the record of a call with a memo on its way into the log. Most are
// written by the numbers of an earlier one.
type memoRecord struct {
	trail *Trail
	a     commands.Audited
}

// plain reports whether the entry of a call has nothing that the memo does not know:
// nothing went wrong, and nobody is told.
func plain(a *commands.Audited) bool {
	return a.Memo != nil && a.Effect != commands.Read && a.Err == nil && !a.Async && !a.Late && a.Digest != commands.Digest{} && !guarded(a.Command, a.Effect)
}

// auditPlain is Audit for a call with a plain entry.
func (t *Trail) auditPlain(a *commands.Audited) {
	r, ok := t.memoRecords.Get().(*memoRecord)
	if !ok {
		r = new(memoRecord)
	}
	r.trail, r.a = t, *a
	if t.waiting() > hardBytes || !t.o.Local.Add(r) {
		t.missed(a.At)
	}
	*r = memoRecord{}
	t.memoRecords.Put(r)
	if !a.Held {
		t.o.Local.Keep()
	}
}

// AppendTo implements [evidence.Entry].
func (r *memoRecord) AppendTo(dst []byte, to evidence.Place) []byte {
	a := &r.a
	known, ok := a.Memo.Known.(*likeness)
	if !ok {
		known = new(likeness)
		a.Memo.Known = known
	}
	if !known.fits(a, to.Block()) {
		full := r.trail.recordOf(a)
		*known = likeness{block: to.Block(), principal: a.Principal, sender: a.SenderID, door: a.Door, address: a.Address}
		known.who, known.what = full.names(to)
		full.giveBack(r.trail)
	}
	var flags uint64 = hasDigest
	if a.RequestID != "" {
		flags |= hasRequest
	}
	if a.TraceID != "" {
		flags |= hasTrace
	}
	dst = append(appendHead(dst, flags, a.At, known.who, known.what), a.Digest[:]...)
	dst = appendIDs(dst, to, a.RequestID, a.TraceID)
	r.trail.added++
	return dst
}
