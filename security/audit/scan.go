package audit

import (
	"context"
	"strings"
	"time"
)

// A scan is the reading of one chain in a query.
type scan struct {
	of    *reading
	chain Chain

	bounds Bounds
	end    place // behind the last entry there was when the scan began
	may    func(block uint64) bool
	at     place  // the next entry is behind it or, backward, before it
	head   *Entry // the entry there, once it is found to be wanted
	read   bool   // to its end

	number  uint64 // of the block that was read last
	entries []located
	began   time.Time // when that block was
}

// A located entry is one of a block, as it was stored.
type located struct {
	stored
	seq uint64
}

// newScan begins to read a chain, at a place that its caller sets.
func (r *reading) newScan(ctx context.Context, c Chain) (*scan, error) {
	bounds, err := c.Log.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	s := &scan{of: r, chain: c, bounds: bounds, may: func(uint64) bool { return true }}
	if index, ok := c.Log.(indexed); ok {
		s.may = index.Finder(r.params.texts()...).May
	}
	s.end = place{bounds.Last, 0}
	if s.bounds.First > s.bounds.Last {
		return s, nil
	}
	if err := s.load(ctx, bounds.Last); err != nil {
		return nil, err
	}
	s.end.entries = len(s.entries)
	return s, nil
}

// texts are the texts that every entry that is wanted has, by the index of a log.
func (p *QueryParams) texts() (texts []string) {
	for _, text := range []string{p.Principal, p.Event, p.TraceID} {
		if text != "" && !strings.HasSuffix(text, "*") {
			texts = append(texts, text)
		}
	}
	return texts
}

// begin chooses where the scan begins, for the first page of a query.
func (s *scan) begin(ctx context.Context) error {
	p := &s.of.params
	switch {
	case p.After != nil:
		first, err := s.following(ctx, *p.After)
		s.at = place{first, 0}
		return err
	case p.Until.IsZero():
		s.at = s.end
		return nil
	}
	behind, err := search(ctx, s.chain.Log, s.bounds, func(b *block) bool { return !b.at.Before(p.Until) })
	if s.at = (place{behind - 1, wholeBlock}); behind > s.bounds.Last {
		s.at = s.end
	}
	return err
}

// following is the first block with entries after a sequence of the chain.
func (s *scan) following(ctx context.Context, after uint64) (uint64, error) {
	if index, ok := s.chain.Log.(indexed); ok {
		return index.BySeq(after + 1), nil
	}
	last, err := lastGroup(ctx, s.chain.Log)
	if last == nil || err != nil {
		return s.bounds.First, err
	}
	return search(ctx, s.chain.Log, s.bounds, func(b *block) bool {
		g := b.lastOf(last.chain)
		return g != nil && g.last() > after
	})
}

// over reports whether there is nothing behind the place of the scan or, backward,
// before it.
func (s *scan) over() bool {
	switch {
	case s.head != nil:
		return false
	case s.read:
		return true
	case s.of.forward:
		return s.at.block > s.end.block || s.at.block == s.end.block && s.at.entries >= s.end.entries
	}
	return s.at.block < max(s.bounds.First, 1) || s.at.block == s.bounds.First && s.at.entries == 0
}

// seek finds the next entry that is wanted. It finds none at the end of the chain,
// or when the query has looked at enough.
func (s *scan) seek(ctx context.Context) error {
	for s.head == nil && !s.read && !s.of.spent() {
		if s.over() {
			s.finish()
			return nil
		}
		if err := s.enter(ctx); err != nil {
			return err
		}
		s.walk()
	}
	return nil
}

// finish ends the scan at the end of its chain, where a later query may go on. A
// place behind that is of a trail that was restored since.
func (s *scan) finish() {
	s.read = true
	if s.at.block > s.end.block {
		s.at = s.end
	}
}

// enter has the entries of the block of its place at hand, none if none of them can
// be wanted. It leaves places that do not exist.
func (s *scan) enter(ctx context.Context) error {
	switch {
	case s.at.block < s.bounds.First: // which retention has taken meanwhile
		s.at = place{s.bounds.First, 0}
	case s.at.block > s.bounds.Last:
		s.at = s.end
	}
	err := s.load(ctx, s.at.block)
	if s.at.entries == wholeBlock || s.at.entries > len(s.entries) {
		s.at.entries = len(s.entries)
	}
	return err
}

// load reads the entries of a block. The last block is read in any case: it may get
// more entries, and those it has are counted.
func (s *scan) load(ctx context.Context, number uint64) error {
	if number == s.number {
		return nil
	}
	s.number, s.entries, s.began = number, nil, time.Time{}
	if number != s.bounds.Last && !s.may(number) {
		return nil
	}
	s.of.blocks++
	data, err := s.chain.Log.Get(ctx, number)
	if err != nil {
		return err
	}
	b := decodeBlock(data) // Verify reports unreadable blocks
	for _, g := range b.groups {
		for i, e := range g.entries {
			s.entries = append(s.entries, located{e, g.first + uint64(i)})
		}
	}
	s.began = b.at
	return nil
}

// walk looks at the entries of a block up to the first that is wanted, or goes to
// the next block.
func (s *scan) walk() {
	if s.of.forward {
		for ; s.at.entries < len(s.entries); s.at.entries++ {
			if s.look(s.entries[s.at.entries]) {
				return
			}
		}
		if s.at.block < s.bounds.Last {
			s.at = place{s.at.block + 1, 0}
		}
		return
	}
	for ; s.at.entries > 0; s.at.entries-- {
		if s.look(s.entries[s.at.entries-1]) {
			return
		}
	}
	if s.at.block > s.bounds.First {
		s.at = place{s.at.block - 1, wholeBlock}
	}
}

// look reads an entry and reports whether the walk ends there.
func (s *scan) look(at located) bool {
	if s.of.spent() {
		return true
	}
	s.of.looked++
	e, err := decode(at.stored, at.seq)
	p := &s.of.params
	switch {
	case err != nil:
	case s.of.matches(&e):
		s.head = &e
	case !s.of.forward && e.Time.Before(p.Since) && s.began.Before(p.Since.Add(-time.Minute)):
		s.read = true // and so is all before
	}
	return s.head != nil || s.read
}

// take takes the entry that was found, and goes on behind it.
func (s *scan) take() Entry {
	e := *s.head
	s.head, e.Bridge = nil, s.chain.Bridge
	if s.of.forward {
		s.at.entries++
	} else {
		s.at.entries--
	}
	return e
}
