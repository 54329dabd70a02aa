package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/evidence"
	"github.com/aibridge/aibridge/protocol"
)

var query = commands.Spec{
	Name:    "audit.query",
	Summary: "Show entries of the audit trail, the latest first, or what came after one.",
	Effect:  commands.Read,
	Action:  "audit:query",
	Example: `{"event":"skill.*","principal":"alice","limit":20}`,
}

// QueryParams choose entries. An absent one chooses all.
type QueryParams struct {
	Since     time.Time `json:"since,omitzero" doc:"not before, RFC 3339"`
	Until     time.Time `json:"until,omitzero" doc:"before, RFC 3339"`
	Principal string    `json:"principal,omitempty" len:"1-256" audit:"yes" doc:"who did it"`
	Event     string    `json:"event,omitempty" len:"1-64" audit:"yes" doc:"command or event; skill.* means all that begin so"`
	Code      string    `json:"code,omitempty" pattern:"^(ok|failed|[0-9]{4})$" audit:"yes" doc:"ok, an error code, or failed for any"`
	Resource  string    `json:"resource,omitempty" len:"1-256" audit:"yes" doc:"on what, as type/id; skill/* means all that begin so"`
	TraceID   string    `json:"trace_id,omitempty" len:"1-256" audit:"yes" doc:"of this trace"`
	Security  bool      `json:"security,omitempty" doc:"only entries that operators are told of"`
	After     *uint64   `json:"after,omitempty" doc:"only entries after this sequence, the oldest first"`
	Limit     int       `json:"limit" default:"100" range:"1-1000" doc:"entries at most"`
	Cursor    string    `json:"cursor,omitempty" len:"1-64" doc:"next_cursor of the page before"`
}

// QueryResult is a page of entries.
type QueryResult struct {
	Entries []Entry `json:"entries" doc:"what was found"`
	Last    uint64  `json:"last" doc:"sequence of the last entry of the trail"`
	Next    string  `json:"next_cursor,omitempty" doc:"where the next page begins; absent at the end"`
}

// How much one query looks at before it answers with what it has.
const (
	maxBlocks  = 2000 // that were read
	maxEntries = 100_000
)

// Query shows entries. Who is no administrator sees those of its own space.
func (t *Trail) Query(ctx context.Context, call *commands.Call, p QueryParams) (QueryResult, error) {
	if err := t.Flush(ctx); err != nil {
		return QueryResult{}, err
	}
	bounds, err := t.log.Bounds(ctx)
	if err != nil {
		return QueryResult{}, err
	}
	r := reading{trail: t, params: p, who: call.Principal, bounds: bounds, found: []Entry{}, may: t.finder(&p)}
	if p.After != nil {
		err = r.forward(ctx)
	} else {
		err = r.backward(ctx)
	}
	if err != nil {
		return QueryResult{}, err
	}
	return QueryResult{Entries: r.found, Last: t.Head().Seq, Next: r.next}, nil
}

// An indexed log knows where entries are without reading it.
type indexed interface {
	// BySeq is the first block whose last entry is not before a sequence.
	BySeq(seq uint64) uint64
	// Finder passes over blocks in which no entry has all of some texts.
	Finder(texts ...string) *evidence.Finder
}

// finder reports which blocks may have what a query asks for.
func (t *Trail) finder(p *QueryParams) func(number uint64) bool {
	index, ok := t.log.(indexed)
	if !ok {
		return func(uint64) bool { return true }
	}
	var texts []string
	for _, text := range []string{p.Principal, p.Event, p.TraceID} {
		if text != "" && !strings.HasSuffix(text, "*") {
			texts = append(texts, text)
		}
	}
	return index.Finder(texts...).May
}

// A reading is one query under way.
type reading struct {
	trail  *Trail
	params QueryParams
	who    *protocol.Principal
	bounds Bounds
	may    func(number uint64) bool
	blocks int
	looked int
	found  []Entry
	next   string
}

// A cursor in the log: a block, and how many of its entries come before.
type cursor struct {
	position uint64
	index    int
}

func (p cursor) String() string { return fmt.Sprintf("%d.%d", p.position, p.index) }

// A located entry is one of a block, as it was stored.
type located struct {
	stored
	seq uint64
}

// start is where the query begins to read.
func (r *reading) start(otherwise cursor) (cursor, error) {
	if r.params.Cursor == "" {
		return otherwise, nil
	}
	var p cursor
	if _, err := fmt.Sscanf(r.params.Cursor, "%d.%d", &p.position, &p.index); err != nil || p.index < 0 || p.String() != r.params.Cursor {
		return cursor{}, protocol.InvalidParam("cursor", "is not one that a query returned")
	}
	return p, nil
}

// full reports whether the query has done its part, to go on from a place.
func (r *reading) full(at cursor) bool {
	if len(r.found) < r.params.Limit && r.blocks < maxBlocks && r.looked < maxEntries {
		return false
	}
	r.next = at.String()
	return true
}

// block reads the entries of a block. It returns when the first was written,
// zero if there are none that may be wanted.
func (r *reading) block(ctx context.Context, number uint64) (entries []located, at time.Time, err error) {
	if !r.may(number) {
		return nil, at, nil
	}
	r.blocks++
	data, err := r.trail.log.Get(ctx, number)
	if err != nil {
		return nil, at, err
	}
	b := decodeBlock(data) // what cannot be read is for Verify to tell
	for _, g := range b.groups {
		for i, s := range g.entries {
			entries = append(entries, located{s, g.first + uint64(i)})
		}
	}
	return entries, b.at, nil
}

// last is the block that a query for earlier entries begins with.
func (r *reading) last(ctx context.Context) (uint64, error) {
	until := r.params.Until
	if until.IsZero() || r.params.Cursor != "" {
		return r.bounds.Last, nil
	}
	behind, err := r.trail.search(ctx, r.bounds, func(b *block) bool { return !b.at.Before(until) })
	return behind - 1, err
}

// backward reads from the end to the beginning.
func (r *reading) backward(ctx context.Context) error {
	last, err := r.last(ctx)
	if err != nil {
		return err
	}
	at, err := r.start(cursor{last, -1})
	if err != nil {
		return err
	}
	for ; at.position >= r.bounds.First && at.position > 0 && at.position <= r.bounds.Last; at = (cursor{at.position - 1, -1}) {
		entries, began, err := r.block(ctx, at.position)
		if err != nil {
			return err
		}
		if at.index < 0 || at.index > len(entries) {
			at.index = len(entries)
		}
		for ; at.index > 0; at.index-- {
			if r.full(at) {
				return nil
			}
			e, ok := r.entry(entries[at.index-1])
			if ok {
				r.found = append(r.found, e)
			} else if !e.Time.IsZero() && e.Time.Before(r.params.Since) && began.Before(r.params.Since.Add(-time.Minute)) {
				return nil // and so is all before
			}
		}
	}
	return nil
}

// first is the block a query of what came after an entry begins with.
func (r *reading) first(ctx context.Context, after uint64) (uint64, error) {
	if index, ok := r.trail.log.(indexed); ok {
		return index.BySeq(after + 1), nil
	}
	return r.trail.search(ctx, r.bounds, func(b *block) bool {
		g := b.lastOf(r.trail.o.Key.chain)
		return g != nil && g.last() > after
	})
}

// forward reads from an entry to the end.
func (r *reading) forward(ctx context.Context) error {
	after := *r.params.After
	first, err := r.first(ctx, after)
	if err != nil {
		return err
	}
	at, err := r.start(cursor{first, 0})
	if err != nil {
		return err
	}
	for ; at.position >= r.bounds.First && at.position <= r.bounds.Last; at = (cursor{at.position + 1, 0}) {
		entries, _, err := r.block(ctx, at.position)
		if err != nil {
			return err
		}
		for ; at.index < len(entries); at.index++ {
			if r.full(at) {
				return nil
			}
			if e, ok := r.entry(entries[at.index]); ok && e.Seq > after {
				r.found = append(r.found, e)
			}
		}
	}
	return nil
}

// entry reads one entry and reports whether it is wanted.
func (r *reading) entry(at located) (Entry, bool) {
	r.looked++
	e, err := decode(at.stored, at.seq)
	if err != nil || !r.matches(&e) {
		return e, false
	}
	r.trail.reveal(&e)
	return e, true
}

// reveal shows the parameters of an entry that were sealed, if they can still
// be opened.
func (t *Trail) reveal(e *Entry) {
	if len(e.Sealed) == 0 || t.o.Open == nil {
		return
	}
	if params, err := t.o.Open(e.Sealed); err == nil && json.Valid(params) {
		e.Params, e.Sealed = params, nil
	}
}

func (r *reading) matches(e *Entry) bool {
	p := &r.params
	switch {
	case !r.who.Administrator() && e.Space != r.who.Space,
		!p.Since.IsZero() && e.Time.Before(p.Since),
		!p.Until.IsZero() && !e.Time.Before(p.Until),
		p.Principal != "" && e.Principal != p.Principal,
		p.TraceID != "" && e.TraceID != p.TraceID,
		p.Code == "failed" && e.Code == OK,
		p.Code != "" && p.Code != "failed" && e.Code != p.Code,
		p.Security && !e.Security:
		return false
	}
	return like(e.Event, p.Event) && like(e.Resource, p.Resource)
}

// like compares a text with a pattern; a * at the end stands for
// anything.
func like(text, wanted string) bool {
	if prefix, ok := strings.CutSuffix(wanted, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return wanted == "" || text == wanted
}
