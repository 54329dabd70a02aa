package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var query = commands.Spec{
	Name:    "audit.query",
	Summary: "Show entries of the audit trail, the latest first, or what came after one.",
	Effect:  commands.Read,
	Action:  "audit:query",
	Example: `{"event":"skill.*","principal":"alice","limit":20}`,
}

// QueryParams choose entries. What is not given chooses all.
type QueryParams struct {
	Since     time.Time `json:"since,omitzero" doc:"not before, RFC 3339"`
	Until     time.Time `json:"until,omitzero" doc:"before, RFC 3339"`
	Principal string    `json:"principal,omitempty" len:"1-256" audit:"yes" doc:"who did it"`
	Event     string    `json:"event,omitempty" len:"1-64" audit:"yes" doc:"command or event; skill.* means all that begin so"`
	Code      string    `json:"code,omitempty" pattern:"^(ok|failed|[0-9]{4})$" audit:"yes" doc:"ok, an error code, or failed for any"`
	Resource  string    `json:"resource,omitempty" len:"1-256" audit:"yes" doc:"on what, as type/id; skill/* means all that begin so"`
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
	maxGroups  = 2000
	maxEntries = 100_000
)

// Query shows entries. Who is no administrator sees those of its own space.
func (t *Trail) Query(ctx context.Context, call *commands.Call, p QueryParams) (QueryResult, error) {
	if err := t.Flush(ctx); err != nil {
		return QueryResult{}, err
	}
	bounds, err := t.o.Log.Bounds(ctx)
	if err != nil {
		return QueryResult{}, err
	}
	r := reading{trail: t, params: p, who: call.Principal, bounds: bounds, found: []Entry{}}
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

// A reading is one query under way.
type reading struct {
	trail  *Trail
	params QueryParams
	who    *protocol.Principal
	bounds Bounds
	groups int
	looked int
	found  []Entry
	next   string
}

// A place in the log: a group, and how many of its entries come before.
type place struct {
	position uint64
	index    int
}

func (p place) String() string { return fmt.Sprintf("%d.%d", p.position, p.index) }

// start is where the query begins to read.
func (r *reading) start(otherwise place) (place, error) {
	if r.params.Cursor == "" {
		return otherwise, nil
	}
	var p place
	if _, err := fmt.Sscanf(r.params.Cursor, "%d.%d", &p.position, &p.index); err != nil || p.index < 0 || p.String() != r.params.Cursor {
		return place{}, protocol.InvalidParam("cursor", "is not one that a query returned")
	}
	return p, nil
}

// full reports whether the query has done its part, to go on from a place.
func (r *reading) full(at place) bool {
	if len(r.found) < r.params.Limit && r.groups < maxGroups && r.looked < maxEntries {
		return false
	}
	r.next = at.String()
	return true
}

func (r *reading) group(ctx context.Context, position uint64) (*group, error) {
	r.groups++
	data, err := r.trail.o.Log.Get(ctx, position)
	if err != nil {
		return nil, err
	}
	g, err := decodeGroup(data)
	if err != nil {
		return nil, nil //nolint:nilerr // Verify is who complains
	}
	return g, nil
}

// backward reads from the end to the beginning.
func (r *reading) backward(ctx context.Context) error {
	last := r.bounds.Last
	if !r.params.Until.IsZero() && r.params.Cursor == "" {
		behind, err := r.trail.search(ctx, r.bounds, func(g *group) bool { return !g.at.Before(r.params.Until) })
		if err != nil {
			return err
		}
		last = behind - 1
	}
	at, err := r.start(place{last, -1})
	if err != nil {
		return err
	}
	for ; at.position >= r.bounds.First && at.position > 0 && at.position <= r.bounds.Last; at = (place{at.position - 1, -1}) {
		g, err := r.group(ctx, at.position)
		if err != nil {
			return err
		}
		if g == nil {
			continue
		}
		if at.index < 0 || at.index > len(g.entries) {
			at.index = len(g.entries)
		}
		for ; at.index > 0; at.index-- {
			if r.full(at) {
				return nil
			}
			e, ok := r.entry(g, at.index-1)
			if ok {
				r.found = append(r.found, e)
			} else if !e.Time.IsZero() && e.Time.Before(r.params.Since) && g.at.Before(r.params.Since.Add(-time.Minute)) {
				return nil // and so is all before
			}
		}
	}
	return nil
}

// forward reads from an entry to the end.
func (r *reading) forward(ctx context.Context) error {
	after := *r.params.After
	first, err := r.trail.search(ctx, r.bounds, func(g *group) bool { return g.chain == r.trail.o.Key.chain && g.last() > after })
	if err != nil {
		return err
	}
	at, err := r.start(place{first, 0})
	if err != nil {
		return err
	}
	for ; at.position >= r.bounds.First && at.position <= r.bounds.Last; at = (place{at.position + 1, 0}) {
		g, err := r.group(ctx, at.position)
		if err != nil {
			return err
		}
		if g == nil {
			continue
		}
		for ; at.index < len(g.entries); at.index++ {
			if r.full(at) {
				return nil
			}
			if e, ok := r.entry(g, at.index); ok && e.Seq > after {
				r.found = append(r.found, e)
			}
		}
	}
	return nil
}

// entry reads one entry and reports whether it is wanted.
func (r *reading) entry(g *group, i int) (Entry, bool) {
	r.looked++
	e, err := decode(g.entries[i], g.first+uint64(i))
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
		p.Code == "failed" && e.Code == OK,
		p.Code != "" && p.Code != "failed" && e.Code != p.Code,
		p.Security && !e.Security:
		return false
	}
	return like(e.Event, p.Event) && like(e.Resource, p.Resource)
}

// like compares a text with what is asked for; a * at the end stands for
// anything.
func like(text, wanted string) bool {
	if prefix, ok := strings.CutSuffix(wanted, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return wanted == "" || text == wanted
}
