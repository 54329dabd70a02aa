package audit

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/protocol"
)

// MaxParams bounds parameters that are recorded, in bytes. Longer ones are
// left out.
const MaxParams = 2048

// Bounds of the texts of an entry; the rest is cut off.
const (
	maxText    = 256             // bytes of a string
	maxSealed  = MaxParams + 256 // with what sealing adds
	maxDetails = 16
	timeFormat = "2006-01-02T15:04:05.000Z"
)

// The flags of an entry.
const (
	isSecurity = 1 << iota
	isAsync
	isLate
	hasDigest
	hasRequest
	hasTrace
	hasReason
	hasSealed
	hasDetails
)

// A record is an entry on its way into the log, with parts that would cost
// memory to put into an [Entry] first. It is, in the log: flags, Unix
// milliseconds, the numbers of the definitions of who and what, and the parts that
// the flags name, in their order.
type record struct {
	Entry
	on     [2]string // resource as type and id, instead of Resource
	params []byte    // instead of Params
	digest []byte    // instead of Digest

	added *uint64 // counts the entries of the log, under its lock
	quiet bool    // operators know of it
	told  func()  // called once stored, with the log's lock held, in the order of the log; nil for most
	text  []byte  // scratch space for the dictionary records
	shown []byte  // the buffer for params
	hash  commands.Digest
}

// AppendTo implements [evidence.Entry].
func (r *record) AppendTo(dst []byte, to evidence.Place) []byte {
	who, what := r.names(to)
	flags := r.flags()
	dst = appendHead(dst, flags, r.Time, who, what)
	switch {
	case len(r.digest) > 0:
		dst = append(dst, r.digest...)
	case flags&hasDigest != 0:
		digest, _ := parseDigest(r.Digest)
		dst = append(dst, digest[:]...)
	}
	dst = appendIDs(dst, to, r.RequestID, r.TraceID)
	if flags&hasReason != 0 {
		dst = appendText(dst, r.Reason)
	}
	if flags&hasSealed != 0 {
		dst = append(binary.AppendUvarint(dst, uint64(len(r.Sealed))), r.Sealed...)
	}
	if flags&hasDetails != 0 {
		dst = r.appendDetails(dst)
	}
	*r.added++
	if r.told != nil {
		r.told()
	}
	return dst
}

// names are the numbers of who and what. The block is found by both from now on.
func (r *record) names(to evidence.Place) (who, what uint64) {
	r.text = r.appendWho(r.text[:0])
	who = to.Number(r.text)
	r.text = r.appendWhat(r.text[:0])
	what = to.Number(r.text)
	to.Mark(r.Principal)
	to.Mark(r.Event)
	return who, what
}

// appendHead writes what every entry has.
func appendHead(dst []byte, flags uint64, at time.Time, who, what uint64) []byte {
	dst = binary.AppendUvarint(dst, flags)
	dst = binary.AppendVarint(dst, at.UnixMilli())
	dst = binary.AppendUvarint(dst, who)
	return binary.AppendUvarint(dst, what)
}

// appendIDs writes the ids of a request and of its trace, "" without one.
func appendIDs(dst []byte, to evidence.Place, request, trace string) []byte {
	if request != "" {
		dst = evidence.AppendID(dst, cut(request))
	}
	if trace != "" {
		dst = evidence.AppendID(dst, cut(trace))
		to.Mark(trace)
	}
	return dst
}

func (r *record) flags() (flags uint64) {
	for _, f := range [...]struct {
		flag uint64
		on   bool
	}{
		{isSecurity, r.Security}, {isAsync, r.Async}, {isLate, r.Late}, {hasDigest, len(r.digest) > 0 || isDigest(r.Digest)},
		{hasRequest, r.RequestID != ""}, {hasTrace, r.TraceID != ""}, {hasReason, r.Reason != ""},
		{hasSealed, len(r.Sealed) > 0 && len(r.Sealed) <= maxSealed}, {hasDetails, len(r.Details) > 0},
	} {
		if f.on {
			flags |= f.flag
		}
	}
	return flags
}

// appendWho writes the actor and its origin: the part that is the same for all calls of
// a connection.
func (r *record) appendWho(dst []byte) []byte {
	for _, text := range [...]string{
		r.Principal, string(r.Kind), string(r.Space), r.Credential, r.Method, string(r.CertSerial), r.ActsFor, r.Door,
	} {
		dst = appendText(dst, text)
	}
	if !r.Address.IsValid() {
		return dst
	}
	if a := r.Address; a.Is4() {
		four := a.As4()
		return append(dst, four[:]...)
	}
	sixteen := r.Address.As16()
	return append(dst, sixteen[:]...)
}

// appendWhat writes the deed: the part that is the same for many calls.
func (r *record) appendWhat(dst []byte) []byte {
	dst = appendText(dst, r.Event)
	dst = appendText(dst, r.Code)
	dst = appendText(dst, r.Action)
	if r.on != [2]string{} {
		a, b := cut(r.on[0]), cut(r.on[1])
		dst = binary.AppendUvarint(dst, uint64(len(a)+1+len(b)))
		dst = append(append(append(dst, a...), '/'), b...)
	} else {
		dst = appendText(dst, r.Resource)
	}
	params := r.params
	if len(params) == 0 {
		params = r.Params
	}
	if len(params) <= MaxParams {
		dst = append(dst, params...)
	}
	return dst
}

func (r *record) appendDetails(dst []byte) []byte {
	var room [maxDetails]string
	names := slices.AppendSeq(room[:0], maps.Keys(r.Details))
	slices.Sort(names)
	names = names[:min(len(names), maxDetails)]
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, name := range names {
		dst = appendText(appendText(dst, name), r.Details[name])
	}
	return dst
}

func appendText(dst []byte, text string) []byte {
	text = cut(text)
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// cut shortens a text to the bound of an entry.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	n := maxText - len("…")
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// decode reads an entry as it was stored.
func decode(s stored, seq uint64) (e Entry, err error) {
	if s.json != nil {
		err = json.Unmarshal(s.json, &e)
	} else {
		e, err = expand(s)
	}
	e.Seq = seq
	return e, err
}

var errEntry = errors.New("an entry that cannot be read")

// A fields cuts one field after the other off a text. After one that is not
// there all are empty.
type fields struct {
	left []byte
	bad  bool
}

func (f *fields) number() (n uint64) {
	n, f.left, f.bad = cutOr(f.bad, f.left, evidence.CutUvarint)
	return n
}

func (f *fields) id() (id string) {
	id, f.left, f.bad = cutOr(f.bad, f.left, evidence.CutID)
	return id
}

func (f *fields) bytes() (text []byte) {
	text, f.left, f.bad = cutOr(f.bad, f.left, evidence.CutText)
	return text
}

func (f *fields) text() string { return string(f.bytes()) }

func (f *fields) time() time.Time {
	ms, n := binary.Varint(f.left)
	if n <= 0 {
		f.bad = true
		return time.Time{}
	}
	f.left = f.left[n:]
	return time.UnixMilli(ms).UTC()
}

func cutOr[T any](bad bool, data []byte, cut func([]byte) (T, []byte, bool)) (got T, rest []byte, failed bool) {
	if bad {
		return got, nil, true
	}
	got, rest, ok := cut(data)
	return got, rest, !ok
}

// expand reads an entry. Where a definition was lost, the entry says so instead
// of who or what.
func expand(s stored) (e Entry, err error) {
	f := fields{left: s.body}
	flags := f.number()
	e.Time = f.time()
	who, what := s.names.Name(f.number()), s.names.Name(f.number())
	e.Security, e.Async, e.Late = flags&isSecurity != 0, flags&isAsync != 0, flags&isLate != 0
	if flags&hasDigest != 0 {
		if len(f.left) < len(commands.Digest{}) {
			return e, errEntry
		}
		e.Digest = commands.Digest(f.left).String()
		f.left = f.left[len(commands.Digest{}):]
	}
	if flags&hasRequest != 0 {
		e.RequestID = f.id()
	}
	if flags&hasTrace != 0 {
		e.TraceID = f.id()
	}
	if flags&hasReason != 0 {
		e.Reason = f.text()
	}
	if flags&hasSealed != 0 {
		e.Sealed = f.bytes()
	}
	if flags&hasDetails != 0 {
		e.Details = make(map[string]string)
		for n := min(f.number(), maxDetails); n > 0 && !f.bad; n-- {
			name := f.text()
			e.Details[name] = f.text()
		}
	}
	if f.bad || who == nil || what == nil {
		return e, errEntry
	}
	return e, errors.Join(e.expandWho(who), e.expandWhat(what))
}

// writtenAt is the time of an entry.
func writtenAt(body []byte) time.Time {
	f := fields{left: body}
	f.number()
	return f.time()
}

func (e *Entry) expandWho(text []byte) error {
	f := fields{left: text}
	e.Principal, e.Kind, e.Space = f.text(), protocol.Kind(f.text()), protocol.SpaceID(f.text())
	e.Credential, e.Method, e.CertSerial = f.text(), f.text(), protocol.Serial(f.text())
	e.ActsFor, e.Door = f.text(), f.text()
	if len(f.left) > 0 {
		e.Address, _ = netip.AddrFromSlice(f.left)
	}
	if f.bad {
		return errEntry
	}
	return nil
}

func (e *Entry) expandWhat(text []byte) error {
	f := fields{left: text}
	e.Event, e.Code, e.Action, e.Resource = f.text(), f.text(), f.text(), f.text()
	if len(f.left) > 0 {
		e.Params = f.left
	}
	if f.bad {
		return errEntry
	}
	return nil
}

// number is an integer as details have it.
func number(n uint64) string { return strconv.FormatUint(n, 10) }

// isDigest reports whether a text is a digest as entries have it.
func isDigest(text string) bool {
	_, ok := parseDigest(text)
	return ok
}

func parseDigest(text string) (d commands.Digest, ok bool) {
	if len(text) != hex.EncodedLen(len(d)) {
		return d, false
	}
	_, err := hex.Decode(d[:], []byte(text))
	return d, err == nil
}
