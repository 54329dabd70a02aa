package cap

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// The files that a Cap is described by (docs/sync.md).
const (
	CapFile    = "cap.json"
	GroupsFile = "group.json"
	LinksFile  = "links.json"
)

// The schemas of the files, the first member of each.
const (
	capSchema    = "aibridge/cap/1"
	groupsSchema = "aibridge/groups/1"
	linksSchema  = "aibridge/links/1"
)

type (
	capDocument struct {
		Schema string `json:"schema"`
		Cap
	}
	groupsDocument struct {
		Schema string          `json:"schema"`
		Cap    protocol.CapID  `json:"cap_id"`
		Groups []groupDocument `json:"groups"`
	}
	groupDocument struct {
		ID      protocol.GroupID `json:"group_id"`
		Members []Member         `json:"members"`
		Data    []datumDocument  `json:"data"`
		BornAt  int64            `json:"born_at"`
	}
	datumDocument struct {
		Key       protocol.DataKey `json:"data_key"`
		Type      DataType         `json:"data_type"`
		Value     json.RawMessage  `json:"data_value"`
		UpdatedAt int64            `json:"updated_at"`
		UpdatedBy string           `json:"updated_by"`
	}
	linksDocument struct {
		Schema string         `json:"schema"`
		Cap    protocol.CapID `json:"cap_id"`
		Links  []linkDocument `json:"links"`
	}
	linkDocument struct {
		Group protocol.GroupID `json:"group_id"`
		Link
	}
)

// A Snapshot is everything that is known of a Cap. Nothing in it may be
// changed.
type Snapshot struct {
	Cap    *Cap
	Groups []*Group // by id
	Data   []*Datum // by group and key
}

// Snapshot returns the present state of a Cap.
func (s *Service) Snapshot(space protocol.SpaceID, id protocol.CapID) (Snapshot, bool) {
	c, _, ok := s.opts.Caps.Get(capKey(space, id))
	if !ok {
		return Snapshot{}, false
	}
	p := Snapshot{Cap: c}
	for _, group := range s.index.groupsOf(space, id) {
		g, _, ok := s.opts.Groups.Get(groupKey(space, id, group))
		if !ok || g.dynamic() { // the files know members alone
			continue
		}
		p.Groups = append(p.Groups, g)
		for _, key := range s.index.dataOf(space, id, group) {
			if d, _, ok := s.opts.Data.Get(dataKey(space, id, group, key)); ok {
				p.Data = append(p.Data, d)
			}
		}
	}
	return p, true
}

// Files renders a snapshot as files by name. The same snapshot gives the same
// bytes.
func (p Snapshot) Files() map[string][]byte {
	groups := groupsDocument{groupsSchema, p.Cap.ID, []groupDocument{}}
	links := linksDocument{linksSchema, p.Cap.ID, []linkDocument{}}
	for _, g := range p.Groups {
		doc := groupDocument{g.ID, append([]Member{}, g.Members...), []datumDocument{}, g.BornAt}
		for _, d := range p.Data {
			if d.Group == g.ID {
				doc.Data = append(doc.Data, datumDocument{d.Key, d.Type, d.Value, d.UpdatedAt, d.UpdatedBy})
			}
		}
		groups.Groups = append(groups.Groups, doc)
		for _, l := range g.Links {
			links.Links = append(links.Links, linkDocument{g.ID, l})
		}
	}
	return map[string][]byte{
		CapFile:    render(capDocument{capSchema, *p.Cap}),
		GroupsFile: render(groups),
		LinksFile:  render(links),
	}
}

func render(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return []byte("{}\n")
	}
	return append(data, '\n')
}

// ReadSnapshot reads the files of a Cap of a space. Files of groups or links
// that are missing stand for none. Bad documents are 4002.
func ReadSnapshot(space protocol.SpaceID, id protocol.CapID, files map[string][]byte) (Snapshot, error) {
	var doc capDocument
	var groups groupsDocument
	var links linksDocument
	for _, f := range []struct {
		name, schema string
		into         any
		found        *string
		cap          *protocol.CapID
	}{
		{CapFile, capSchema, &doc, &doc.Schema, &doc.ID},
		{GroupsFile, groupsSchema, &groups, &groups.Schema, &groups.Cap},
		{LinksFile, linksSchema, &links, &links.Schema, &links.Cap},
	} {
		data, there := files[f.name]
		if !there && f.name != CapFile {
			continue
		}
		if !there {
			return Snapshot{}, badFile(f.name, "is missing")
		}
		if err := decodeStrictly(data, f.into); err != nil {
			return Snapshot{}, badFile(f.name, err.Error())
		}
		if *f.found != f.schema || *f.cap != id {
			return Snapshot{}, badFile(f.name, "is not about this Cap, or of another schema")
		}
	}
	c := doc.Cap
	c.Space = space
	if err := checkCap(&c); err != nil {
		return Snapshot{}, badFile(CapFile, err.Error())
	}
	p := Snapshot{Cap: &c}
	if err := p.take(groups, links); err != nil {
		return Snapshot{}, err
	}
	return p, nil
}

func badFile(name, reason string) error {
	return protocol.Errorf(protocol.SyncFailed, "%s cannot be used", name).With("path", name).With("reason", reason)
}

func decodeStrictly(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the document")
	}
	return nil
}

func checkCap(c *Cap) error {
	for _, id := range []struct {
		rule protocol.Rule
		text string
	}{{c.ID.Rule(), string(c.ID)}, {c.Skill.Rule(), string(c.Skill)}} {
		if reason := id.rule.Check(id.text); reason != "" {
			return errors.New(id.rule.What + " " + reason)
		}
	}
	switch {
	case c.MaxMembers < 1 || c.MaxMembers > 1000:
		return errors.New("max_members must be within 1 and 1000")
	case c.SyncEvery < 1 || c.SyncEvery > 3600:
		return errors.New("sync_interval must be within 1 and 3600")
	case c.Status != Active && c.Status != Inactive:
		return errors.New("status must be active or inactive")
	}
	return c.complete(c.ID)
}

// take adds groups, with their data and links.
func (p *Snapshot) take(groups groupsDocument, links linksDocument) error {
	byID := make(map[protocol.GroupID]*Group)
	for _, doc := range groups.Groups {
		if reason := doc.ID.Rule().Check(string(doc.ID)); reason != "" || byID[doc.ID] != nil || len(doc.Members) == 0 {
			return badFile(GroupsFile, "has a group that cannot be, or twice")
		}
		if len(doc.Members) > p.Cap.MaxMembers || len(doc.Data) > maxKeys {
			return badFile(GroupsFile, "has a group that is too large")
		}
		g := &Group{Space: p.Cap.Space, Cap: p.Cap.ID, ID: doc.ID, Members: doc.Members, BornAt: doc.BornAt}
		byID[doc.ID] = g
		p.Groups = append(p.Groups, g)
		for _, m := range doc.Members {
			if reason := m.Skill.Rule().Check(string(m.Skill)); reason != "" {
				return badFile(GroupsFile, "has a member whose skill id "+reason)
			}
		}
		for _, d := range doc.Data {
			if reason := d.Key.Rule().Check(string(d.Key)); reason != "" {
				return badFile(GroupsFile, "has data whose key "+reason)
			}
			value := new(bytes.Buffer)
			if json.Compact(value, d.Value) != nil || d.Type.check(value.Bytes()) != nil {
				return badFile(GroupsFile, "has data that is not of its type")
			}
			p.Data = append(p.Data, &Datum{p.Cap.Space, p.Cap.ID, doc.ID, d.Key, d.Type, value.Bytes(), d.UpdatedAt, d.UpdatedBy})
		}
	}
	for _, l := range links.Links {
		g := byID[l.Group]
		if g == nil || g.member(l.Source) < 0 || g.member(l.Target) < 0 || len(g.Links) >= maxLinks {
			return badFile(LinksFile, "has a link between skills that are not in a group together")
		}
		g.Links = append(g.Links, l.Link)
	}
	slices.SortFunc(p.Groups, func(a, b *Group) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

// Restore brings a Cap to the state in a snapshot; further groups and data stay.
// It is for the bridge itself and checks no rights.
func (s *Service) Restore(ctx context.Context, p Snapshot) error {
	defer s.locks.take(p.Cap.key())()
	if err := restore(ctx, s.opts.Caps, p.Cap.key(), p.Cap); err != nil {
		return err
	}
	for _, g := range p.Groups {
		if held, _, ok := s.opts.Groups.Get(g.key()); ok && held.dynamic() {
			return chosenBySelector(held)
		}
		if err := restore(ctx, s.opts.Groups, g.key(), g); err != nil {
			return err
		}
	}
	for _, d := range p.Data {
		if err := restore(ctx, s.opts.Data, d.key(), d); err != nil {
			return err
		}
	}
	return nil
}

// restore stores a record unless an equal one is there.
func restore[T any](ctx context.Context, t records.Table[T], key string, v *T) error {
	if old, _, ok := t.Get(key); ok && records.Same(old, v) {
		return nil
	}
	_, err := t.Put(ctx, key, v)
	return err
}

// May reports whether there is a Cap, and whether a principal may look at its
// files, and change them.
func (s *Service) May(who *protocol.Principal, id protocol.CapID) (exists, read, write bool) {
	c, _, ok := s.opts.Caps.Get(capKey(who.Home(), id))
	if !ok {
		return false, false, false
	}
	write = owns(who, c) || s.speaksFor(who, c.Space, c.Skill)
	return true, write || s.MayUseChannel(who, id, false), write
}

// Owns reports whether a principal may change a Cap: it declared it, it is the
// skill the Cap belongs to, or it may change everything.
func Owns(who *protocol.Principal, c *Cap) bool { return owns(who, c) }

// All yields every Cap of every space, in no particular order.
func (s *Service) All() iter.Seq[*Cap] {
	return func(yield func(*Cap) bool) {
		for _, c := range s.opts.Caps.All() {
			if !yield(c) {
				return
			}
		}
	}
}
