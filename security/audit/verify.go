package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
)

// A Report says whether a trail is whole.
type Report struct {
	OK         bool      `json:"ok" doc:"nothing is wrong"`
	Chain      string    `json:"chain" doc:"which chain this bridge writes"`
	Entries    uint64    `json:"entries" doc:"entries that are there"`
	First      uint64    `json:"first" doc:"sequence of the first; what came before was forgotten by retention"`
	Last       uint64    `json:"last" doc:"sequence of the last"`
	Head       string    `json:"head" doc:"end of the chain as SEQ:HASH, to be noted elsewhere and given to a later verification"`
	Unverified uint64    `json:"unverified" doc:"entries of chains whose key is not here"`
	Problems   []Problem `json:"problems" doc:"faults, the first 100"`
}

// A Problem is something that is wrong with a trail, and where.
type Problem struct {
	Bridge   string `json:"bridge_id,omitempty" doc:"bridge of the chain, in a cluster"`
	Kind     string `json:"kind" doc:"changed, missing, truncated, reordered, repeated, forged, unlinked, unreadable, key"`
	From     uint64 `json:"from" doc:"sequence of the first entry that is affected"`
	To       uint64 `json:"to" doc:"sequence of the last"`
	Position uint64 `json:"position,omitempty" doc:"number of the block of the log, or position in the stream"`
	Text     string `json:"text" doc:"the same in words"`
}

// Kinds of problems.
const (
	problemChanged    = "changed"    // an entry differs from the stored one
	problemMissing    = "missing"    // entries are not there any more
	problemTruncated  = "truncated"  // the same, at the end
	problemReordered  = "reordered"  // entries stand where they do not belong
	problemRepeated   = "repeated"   // entries are there twice
	problemForged     = "forged"     // a group was not written with the key
	problemUnlinked   = "unlinked"   // entries do not follow those before them
	problemUnreadable = "unreadable" // a group is no group
	problemKey        = "key"        // audit.key is not the key of the trail
)

const maxProblems = 100

// Verify looks at every entry of a log. The heads are ends of the chain that
// were noted elsewhere earlier; zero ones are passed over.
func Verify(ctx context.Context, log Log, key *Key, heads ...Head) (Report, error) {
	v, err := read(ctx, log, key, heads...)
	if err != nil {
		return Report{}, err
	}
	return v.report, nil
}

// read looks at every entry of a log.
func read(ctx context.Context, log Log, key *Key, heads ...Head) (*verifier, error) {
	v := &verifier{key: key, heads: heads, starts: make(map[uint64][sha256.Size]byte)}
	v.report.Chain = key.chain.String()
	if err := log.Read(ctx, func(number uint64, data []byte) error {
		v.block(number, data)
		return ctx.Err()
	}); err != nil {
		return nil, fmt.Errorf("audit: read the trail: %w", err)
	}
	v.end()
	return v, nil
}

// Verify looks at every entry of this trail that was recorded before.
func (t *Trail) Verify(ctx context.Context, heads ...Head) (Report, error) {
	if err := t.Flush(ctx); err != nil {
		return Report{}, err
	}
	v, err := t.o.read(ctx, append(heads, t.Head())...)
	if err != nil {
		return Report{}, err
	}
	t.problems.Store(int64(len(v.report.Problems)))
	return v.report, nil
}

// VerifyLog is [Verify] with the head that was noted in a file and the record
// of the trail's birth, where options have them.
func VerifyLog(ctx context.Context, o Options, heads ...Head) (Report, error) {
	v, err := o.read(ctx, heads...)
	if err != nil {
		return Report{}, err
	}
	return v.report, nil
}

// read is [read] of the trail with these options, with all that is noted of it.
func (o *Options) read(ctx context.Context, heads ...Head) (*verifier, error) {
	noted, noteErr := readNote(o.Key, o.HeadFile)
	born, err := o.birthOf(ctx)
	if err != nil {
		return nil, err
	}
	var log Log = o.Local
	if o.Log != nil {
		log = o.Log
	}
	v, err := readBorn(ctx, log, o.Key, born, append(heads, noted)...)
	if err == nil && noteErr != nil {
		v.report.add(noteErr)
	}
	return v, err
}

// readBorn is [read] with the record of the chain's birth, nil for none.
func readBorn(ctx context.Context, log Log, key *Key, born *Birth, heads ...Head) (*verifier, error) {
	first, head, wrong := born.heads(key)
	v, err := read(ctx, log, key, append(heads, first, head)...)
	if err == nil && wrong != nil {
		v.report.add(wrong)
	}
	return v, err
}

// add adds a problem that is not about an entry.
func (r *Report) add(wrong error) {
	kind := problemChanged
	var birth *birthError
	if errors.As(wrong, &birth) {
		kind = birth.kind
	}
	r.OK = false
	r.Problems = append(r.Problems, Problem{Kind: kind, Text: wrong.Error()})
}

// readNote reads the head that is noted in a file, zero without one.
func readNote(key *Key, file string) (Head, error) {
	if file == "" {
		return Head{}, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Head{}, nil
	}
	if err != nil {
		return Head{}, err
	}
	return key.readNote(data)
}

// A verifier reads a chain from its first group to its last.
type verifier struct {
	key     *Key
	heads   []Head
	report  Report
	begun   bool
	head    Head   // of the entries read
	unsure  bool   // the head comes from a group that was not written with the key
	trimmed uint64 // the entries that retention removed, as the trail itself records
	missing []span

	starts   map[uint64][sha256.Size]byte // heads that the bridge has gone on from, by sequence
	stopped  bool                         // the last entry is the bridge's last word
	closings []Closing                    // of the chains of other bridges
}

// A span of sequences, both included.
type span struct{ from, to uint64 }

// block checks the groups of a block, and names the stretches that are none.
func (v *verifier) block(number uint64, data []byte) {
	b := decodeBlock(data)
	for i, g := range b.groups {
		v.damage(&b, i, number)
		v.group(g, number)
	}
	v.damage(&b, len(b.groups), number)
}

// damage names the bytes behind a number of groups of a block that are no group.
func (v *verifier) damage(b *block, behind int, number uint64) {
	for _, d := range b.damaged {
		if d.behind == behind {
			next := v.head.Seq + 1
			v.problem(problemUnreadable, span{next, next}, number, "block %d, after entry %d: %v", number, v.head.Seq, d.err)
		}
	}
}

func (v *verifier) group(g *group, position uint64) {
	entries := span{g.first, g.last()}
	if g.chain != v.key.chain {
		v.report.Unverified += uint64(len(g.entries))
		return
	}
	v.report.Entries += uint64(len(g.entries))
	sealed := g.written(v.key)
	changed := v.entries(g, position, sealed)
	switch {
	case sealed || changed:
	case g.imported:
		v.problem(problemForged, entries, position, "entries %d to %d were not written by this bridge, or their group was changed", entries.from, entries.to)
	default:
		v.problem(problemChanged, entries, position, "entries %d to %d are not what was recorded, or were not written by this bridge", entries.from, entries.to)
	}
	v.place(g, entries, position, sealed)
}

// entries checks the entries of a group one by one and reports whether one was
// found changed.
func (v *verifier) entries(g *group, position uint64, sealed bool) (changed bool) {
	at := Head{g.first - 1, g.previous}
	for i, s := range g.entries {
		if g.imported {
			if at = at.follow(v.key.chain, s.json); at.Hash != s.hash {
				v.problem(problemChanged, span{at.Seq, at.Seq}, position, "entry %d is not what was recorded", at.Seq)
				changed = true
				at.Hash = s.hash
			}
		}
		if e, err := decode(s, g.first+uint64(i)); err == nil {
			v.note(&e, g, sealed)
		}
	}
	for _, h := range v.heads {
		if h.Seq < g.first || h.Seq > g.last() {
			continue
		}
		if found, ok := g.headAt(h.Seq); !ok || found != h {
			v.problem(problemChanged, span{h.Seq, h.Seq}, position, "entry %d, or one before it, is not what it was when its hash was noted", h.Seq)
		}
	}
	return changed
}

// note notes the statement of an entry about this chain or another.
func (v *verifier) note(e *Entry, g *group, sealed bool) {
	v.stopped = e.Event == stopped && sealed
	switch e.Event {
	case trimmed:
		if n, err := strconv.ParseUint(e.Details["through"], 10, 64); err == nil {
			v.trimmed = max(v.trimmed, n)
		}
	case started:
		v.starts[g.first-1] = g.previous
	case Closed:
		if c, ok := e.closing(""); ok && sealed {
			v.closings = append(v.closings, c)
		}
	}
}

// place checks that a group is in its place.
func (v *verifier) place(g *group, entries span, position uint64, sealed bool) {
	next := v.head.Seq + 1
	switch {
	case !v.begun:
		v.begun = true
		v.report.First = g.first
		if g.first > 1 {
			v.missing = append(v.missing, span{1, g.first - 1})
		}
	case g.first == next:
		if sealed && !v.unsure && g.previous != v.head.Hash {
			v.problem(problemUnlinked, entries, position, "entry %d does not follow entry %d as it stands there", g.first, v.head.Seq)
		}
	case g.first > next:
		v.missing = append(v.missing, span{next, g.first - 1})
	case v.unsure && sealed: // a forgery took its place
	case v.fills(entries):
		v.report.First = min(v.report.First, g.first)
		v.problem(problemReordered, entries, position, "entries %d to %d stand after entry %d", entries.from, entries.to, v.head.Seq)
		return // those behind it go on from where it was put in
	default:
		v.problem(problemRepeated, entries, position, "entries %d to %d are there twice, or were put in", entries.from, entries.to)
		return
	}
	v.head, v.unsure = g.head(), !sealed
}

// fills removes found entries from the missing ones, and reports whether they were
// missing.
func (v *verifier) fills(found span) bool {
	for i, m := range v.missing {
		if found.from < m.from || found.to > m.to {
			continue
		}
		var rest []span
		if m.from < found.from {
			rest = append(rest, span{m.from, found.from - 1})
		}
		if found.to < m.to {
			rest = append(rest, span{found.to + 1, m.to})
		}
		v.missing = slices.Replace(v.missing, i, i+1, rest...)
		return true
	}
	return false
}

// end reports the faults that show only at the end.
func (v *verifier) end() {
	for _, m := range v.missing {
		if m.from = max(m.from, v.trimmed+1); m.from <= m.to {
			v.problem(problemMissing, m, 0, "entries %d to %d are missing", m.from, m.to)
		}
	}
	var furthest uint64
	for _, h := range v.heads {
		furthest = max(furthest, h.Seq)
	}
	if furthest > v.head.Seq {
		v.problem(problemTruncated, span{v.head.Seq + 1, furthest}, 0, "entries %d to %d are missing at the end", v.head.Seq+1, furthest)
	}
	v.report.Last = v.head.Seq
	if v.begun {
		v.report.Head = v.head.String()
	}
	v.report.OK = len(v.report.Problems) == 0
	if v.report.Problems == nil {
		v.report.Problems = []Problem{}
	}
	slices.SortStableFunc(v.report.Problems, func(a, b Problem) int { return cmp.Compare(a.From, b.From) })
}

func (v *verifier) problem(kind string, where span, position uint64, format string, args ...any) {
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, Problem{Kind: kind, From: where.from, To: where.to, Position: position, Text: fmt.Sprintf(format, args...)})
	}
}
