package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

// QueryParams choose entries. An absent one chooses all.
type QueryParams struct {
	Since     time.Time `json:"since,omitzero" doc:"not before, RFC 3339"`
	Until     time.Time `json:"until,omitzero" doc:"before, RFC 3339"`
	Principal string    `json:"principal,omitempty" len:"1-256" audit:"yes" doc:"principal who did it"`
	Event     string    `json:"event,omitempty" len:"1-64" audit:"yes" doc:"command or event; skill.* means all that begin so"`
	Code      string    `json:"code,omitempty" pattern:"^(ok|failed|[0-9]{4})$" audit:"yes" doc:"ok, an error code, or failed for any"`
	Resource  string    `json:"resource,omitempty" len:"1-256" audit:"yes" doc:"on what, as type/id; skill/* means all that begin so"`
	TraceID   string    `json:"trace_id,omitempty" len:"1-256" audit:"yes" doc:"of this trace"`
	Bridge    string    `json:"bridge_id,omitempty" len:"1-256" audit:"yes" doc:"only what this bridge of the cluster has recorded"`
	Security  bool      `json:"security,omitempty" doc:"only entries that operators are told of"`
	After     *uint64   `json:"after,omitempty" doc:"only entries after this sequence of one bridge, the oldest first; in a cluster with bridge_id. To follow the trail, use follow_cursor"`
	Limit     int       `json:"limit" default:"100" range:"1-1000" doc:"entries at most"`
	Cursor    string    `json:"cursor,omitempty" len:"1-20000" doc:"next_cursor of the page before; or follow_cursor of an answer, for what came later, the oldest first"`
}

// QueryResult is a page of entries.
type QueryResult struct {
	Entries []Entry  `json:"entries" doc:"findings, of all bridges by time"`
	Last    uint64   `json:"last" doc:"sequence of the last entry of this bridge's trail, or of that of bridge_id"`
	Next    string   `json:"next_cursor,omitempty" doc:"cursor of the next page; absent at the end"`
	Follow  string   `json:"follow_cursor,omitempty" doc:"end of the trail: as cursor it brings later entries; absent on further pages, where that of the first holds"`
	Silent  []string `json:"silent,omitempty" doc:"bridges of the cluster that did not answer: the latest they have recorded may be missing, and comes later"`
}

// The bounds of one query: it answers with the entries found so far.
const (
	maxBlocks  = 2000 // that were read
	maxEntries = 100_000
)

// Query shows entries. A caller that is no administrator sees those of its own space.
func (s *Service) Query(ctx context.Context, call *commands.Call, p QueryParams) (QueryResult, error) {
	r := reading{params: p, who: call.Principal, found: []Entry{}, forward: p.After != nil}
	var from cursor
	if p.Cursor != "" {
		var err error
		if from, err = parseCursor(p.Cursor); err != nil {
			return QueryResult{}, protocol.InvalidParam("cursor", err.Error())
		}
		r.forward = from.forward
	}
	further := p.Cursor != "" && !r.forward // a later page, of the entries that were there at the first
	silent, err := s.settle(ctx, further)
	if err != nil {
		return QueryResult{}, err
	}
	chains, err := s.chains(ctx, &p)
	if err != nil {
		return QueryResult{}, err
	}
	if err := r.open(ctx, chains, from); err != nil {
		return QueryResult{}, err
	}
	result := QueryResult{Silent: silent}
	if !further && !r.forward {
		result.Follow = r.ends().String()
	}
	if err := r.run(ctx); err != nil {
		return QueryResult{}, err
	}
	for i := range r.found {
		s.trail.reveal(&r.found[i])
		if s.others == nil {
			r.found[i].Bridge = "" // there is one bridge alone
		}
	}
	result.Entries = r.found
	rest := r.rest()
	if result.Follow == "" && r.forward {
		result.Follow = rest.String()
	}
	if !r.over() {
		result.Next = rest.String()
	}
	result.Last, err = s.last(ctx, &p, chains)
	return result, err
}

// settle has all bridges store their recorded entries, and returns the bridges that
// did not confirm it.
func (s *Service) settle(ctx context.Context, further bool) (silent []string, err error) {
	if err := s.trail.Flush(ctx); err != nil || further || s.others == nil {
		return nil, err
	}
	_, silent = s.others.Settle(ctx)
	return silent, nil
}

// chains are those that a query reads.
func (s *Service) chains(ctx context.Context, p *QueryParams) ([]Chain, error) {
	all, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(c Chain) bool { return c.Log == nil || p.Bridge != "" && c.Bridge != p.Bridge })
	switch {
	case len(all) == 0:
		return nil, protocol.InvalidParam("bridge_id", "is no bridge with an audit trail")
	case len(all) > maxChains:
		return nil, protocol.InvalidParam("bridge_id", fmt.Sprintf("is needed: there are trails of %d bridges, and at most %d are read together", len(all), maxChains))
	case p.After != nil && len(all) > 1:
		return nil, protocol.InvalidParam("after", "counts the entries of one bridge: name it by bridge_id, or go on with follow_cursor")
	}
	return all, nil
}

// last is the sequence of the last entry of the chain that a query is about.
func (s *Service) last(ctx context.Context, p *QueryParams, read []Chain) (uint64, error) {
	if p.Bridge == "" || p.Bridge == s.trail.o.BridgeID {
		return s.trail.Head().Seq, nil
	}
	g, err := lastGroup(ctx, read[0].Log)
	if g == nil || err != nil {
		return 0, err
	}
	return g.last(), nil
}

// A reading is one query under way.
type reading struct {
	params  QueryParams
	who     *protocol.Principal
	forward bool
	scans   []*scan
	blocks  int
	looked  int
	found   []Entry
}

// open begins to read chains, at a cursor if there is one. A chain that it does not
// know is younger: it is read from its beginning forward, and not at all backward.
func (r *reading) open(ctx context.Context, chains []Chain, from cursor) error {
	for _, c := range chains {
		p, known := from.places[markOf(c.Bridge)]
		if from.places != nil && !known && !r.forward {
			continue
		}
		s, err := r.newScan(ctx, c)
		if err != nil {
			return err
		}
		if s.at = p; from.places == nil {
			if err := s.begin(ctx); err != nil {
				return err
			}
		}
		r.scans = append(r.scans, s)
	}
	if !r.forward && len(r.scans) < len(from.places) {
		return protocol.InvalidParam("cursor", "is of trails that are not there any more")
	}
	return nil
}

// run reads a page.
func (r *reading) run(ctx context.Context) error {
	for len(r.found) < r.params.Limit {
		next, err := r.next(ctx)
		if next == nil || err != nil {
			return err
		}
		r.found = append(r.found, next.take())
	}
	return nil
}

// next is the chain whose next entry is the next of all, nil if there is none or the
// query has looked at enough to find it.
func (r *reading) next(ctx context.Context) (first *scan, err error) {
	for _, s := range r.scans {
		if err := s.seek(ctx); err != nil {
			return nil, err
		}
		if s.head == nil && !s.over() {
			return nil, nil
		}
		if s.head != nil && (first == nil || r.before(s, first)) {
			first = s
		}
	}
	return first, nil
}

// before reports whether the next entry of one chain comes before that of another.
// Entries of one time are in the order of their bridges.
func (r *reading) before(a, b *scan) bool {
	if !r.forward {
		a, b = b, a
	}
	return cmp.Or(a.head.Time.Compare(b.head.Time), cmp.Compare(a.chain.Bridge, b.chain.Bridge)) < 0
}

// spent reports whether the query has looked at enough.
func (r *reading) spent() bool { return r.blocks >= maxBlocks || r.looked >= maxEntries }

// over reports whether all chains are read.
func (r *reading) over() bool {
	return !slices.ContainsFunc(r.scans, func(s *scan) bool { return !s.over() })
}

// rest is the place where a later page goes on.
func (r *reading) rest() cursor {
	c := cursor{forward: r.forward, places: make(map[mark]place)}
	for _, s := range r.scans {
		if r.forward || !s.over() {
			c.places[markOf(s.chain.Bridge)] = s.at
		}
	}
	return c
}

// ends are the ends of the chains when the query began, to be followed from there.
func (r *reading) ends() cursor {
	c := cursor{forward: true, places: make(map[mark]place)}
	for _, s := range r.scans {
		c.places[markOf(s.chain.Bridge)] = s.end
	}
	return c
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
		p.After != nil && e.Seq <= *p.After,
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

// like matches a text with a pattern; a * at the end matches anything.
func like(text, wanted string) bool {
	if prefix, ok := strings.CutSuffix(wanted, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return wanted == "" || text == wanted
}
