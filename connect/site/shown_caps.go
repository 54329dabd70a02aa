package site

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// A shownCap is a Cap as it is declared at the centre.
type shownCap struct {
	declared bool
	said     string                      // how it and its groups were described, "" if not all was taken
	groups   map[protocol.GroupID]string // how each group was described
	values   map[valueKey]uint64         // that the centre has, by the revision here
}

// A valueKey names a value of a Cap's groups.
type valueKey struct {
	group protocol.GroupID
	key   protocol.DataKey
}

// settleCaps has the centre know the Caps of this bridge, with their groups. As with
// agents, the error is that the centre, or this bridge, does not answer.
func (x *shown) settleCaps(ctx context.Context, agents map[protocol.AgentID]*agent) error {
	if len(x.site.Caps) == 0 {
		return nil
	}
	here, err := x.site.caps(ctx, agents)
	if err != nil {
		return err
	}
	if err := x.sweepCaps(ctx, here); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(here)) {
		err := x.tellCap(ctx, here[id])
		if passes(err) {
			return err
		}
		x.site.complain(x.capName(id), err)
	}
	x.carry()
	return nil
}

// carry has the messages of the Caps carried that the centre has.
func (x *shown) carry() {
	declared := []protocol.CapID{}
	for _, id := range slices.Sorted(maps.Keys(x.caps)) {
		if x.caps[id].declared {
			declared = append(declared, id)
		}
	}
	if x.carried == nil || !slices.Equal(declared, x.carried) {
		x.site.Carry(declared)
		x.carried = declared
	}
}

// sweepCaps removes Caps at the centre that are not here any more, and notes those that
// somebody has removed there, so that they are declared again. It asks the centre when a
// Cap is gone, and now and then.
func (x *shown) sweepCaps(ctx context.Context, here map[protocol.CapID]*channel) error {
	gone := len(x.caps)
	maps.DeleteFunc(x.caps, func(id protocol.CapID, _ *shownCap) bool { return here[id] == nil })
	if gone > len(x.caps) {
		x.swept.caps = time.Time{}
		if x.carried != nil {
			x.carry() // not theirs any more, before the centre ends the subscriptions
		}
	}
	if time.Since(x.swept.caps) < lookEvery {
		return nil
	}
	there := map[protocol.CapID]bool{}
	if err := x.eachCapThere(ctx, func(id protocol.CapID) { there[id] = true }); err != nil {
		return err
	}
	for id := range there {
		if here[id] != nil {
			continue
		}
		err := x.ask(ctx, "cap.remove", map[string]any{"cap_id": x.site.named(string(id)), "force": true}, nil)
		if passes(err) {
			return err
		}
		x.site.complain(x.capName(id), nil)
	}
	for id := range x.caps {
		if !there[id] {
			delete(x.caps, id)
			x.carried = nil
		}
	}
	x.swept.caps = time.Now()
	return nil
}

// eachCapThere yields the Caps at the centre with the site's name, by their ids here.
func (x *shown) eachCapThere(ctx context.Context, yield func(protocol.CapID)) error {
	prefix := x.site.named("")
	for cursor := ""; ; {
		var page struct {
			Caps []struct {
				ID protocol.CapID `json:"cap_id"`
			} `json:"caps"`
			Next string `json:"next_cursor"`
		}
		if err := x.ask(ctx, "cap.query", listed(cursor, map[string]any{"find": prefix}), &page); err != nil {
			return err
		}
		for _, c := range page.Caps {
			if local, ok := strings.CutPrefix(string(c.ID), prefix); ok {
				yield(protocol.CapID(local))
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// tellCap brings a Cap at the centre up to date, unless nothing has changed here.
func (x *shown) tellCap(ctx context.Context, c *channel) error {
	said, err := json.Marshal([]any{c, c.groups})
	if err != nil {
		return err
	}
	t := x.caps[c.ID]
	if t == nil {
		t = &shownCap{groups: map[protocol.GroupID]string{}, values: map[valueKey]uint64{}}
		x.caps[c.ID] = t
	}
	if t.said == string(said) {
		return nil
	}
	t.said = ""
	if err := x.declare(ctx, c); err != nil {
		return err
	}
	t.declared = true
	if c.Status == active { // of any other nothing changes
		if err := x.tellGroups(ctx, t, c); err != nil {
			return err
		}
	} else if err := x.becomes(ctx, c); err != nil {
		return err
	}
	t.said = string(said)
	return nil
}

// declare declares a Cap at the centre, and has it be in use there if it is here. Its
// files stay here.
func (x *shown) declare(ctx context.Context, c *channel) error {
	there := *c
	there.ID, there.Skill = protocol.CapID(x.site.named(string(c.ID))), protocol.SkillID(x.site.named(string(c.Skill)))
	params := struct {
		channel
		Status string `json:"status,omitempty"` // is no param
		Sync   bool   `json:"sync_enabled"`
	}{channel: there}
	if err := x.ask(ctx, "cap.declare", params, nil); err != nil || c.Status != active {
		return err
	}
	return x.becomes(ctx, c)
}

// becomes gives a Cap at the centre the status that it has here.
func (x *shown) becomes(ctx context.Context, c *channel) error {
	var there struct {
		Caps []channel `json:"caps"`
	}
	if err := x.ask(ctx, "cap.query", x.of(c, nil), &there); err != nil {
		return err
	}
	if len(there.Caps) == 1 && there.Caps[0].Status == c.Status {
		return nil
	}
	return x.ask(ctx, "cap.update", x.of(c, map[string]any{"cap_info": map[string]any{"status": c.Status}}), nil)
}

// capName is what complaints call a Cap, which may have the id of an agent.
func (x *shown) capName(id protocol.CapID) string { return "Cap " + x.site.named(string(id)) }

// tellGroups brings the groups of a Cap at the centre up to date, and removes those
// that are not here. A group that the centre refuses does not hold up the others.
func (x *shown) tellGroups(ctx context.Context, t *shownCap, c *channel) error {
	var refused error
	here := map[protocol.GroupID]bool{}
	for _, g := range c.groups {
		here[g.ID] = true
		said, err := json.Marshal(g)
		if err != nil {
			return err
		}
		if t.groups[g.ID] == string(said) {
			continue
		}
		delete(t.groups, g.ID)
		switch err := x.tellGroup(ctx, t, c, g); {
		case passes(err):
			return err
		case err != nil:
			refused = cmp.Or(refused, fmt.Errorf("group %q: %w", g.ID, err))
		default:
			t.groups[g.ID] = string(said)
		}
	}
	there, err := x.groupsThere(ctx, c)
	if err != nil {
		return err
	}
	for _, id := range there {
		if here[id] {
			continue
		}
		delete(t.groups, id)
		if err := x.emptyGroup(ctx, c, id); err != nil {
			return err
		}
	}
	return refused
}

// groupsThere lists the groups that a Cap has at the centre.
func (x *shown) groupsThere(ctx context.Context, c *channel) (ids []protocol.GroupID, err error) {
	for cursor := ""; ; {
		var page struct {
			Groups []struct {
				ID protocol.GroupID `json:"group_id"`
			} `json:"groups"`
			Next string `json:"next_cursor"`
		}
		if err := x.ask(ctx, "group.list", listed(cursor, x.of(c, nil)), &page); err != nil {
			return nil, err
		}
		for _, g := range page.Groups {
			ids = append(ids, g.ID)
		}
		if cursor = page.Next; cursor == "" {
			return ids, nil
		}
	}
}

// tellGroup brings one group at the centre up to date. Members that are no skills of
// the site were added there, and stay.
func (x *shown) tellGroup(ctx context.Context, t *shownCap, c *channel, g *group) error {
	there := new(group)
	err := x.ask(ctx, "group.query", x.of(c, map[string]any{"group_id": g.ID}), there)
	if err != nil && protocol.CodeOf(err) != protocol.NotFound {
		return err
	}
	if (g.Selector != "") != (there.Selector != "") && (there.Selector != "" || len(there.Members) > 0) {
		if err := x.ask(ctx, "group.remove", x.of(c, map[string]any{"group_id": g.ID}), nil); err != nil {
			return err
		}
		there = new(group)
	}
	if g.Selector != "" {
		if err := x.tellSelector(ctx, c, g, there.Selector); err != nil {
			return err
		}
		return x.tellData(ctx, t, c, g)
	}
	if err := x.tellMembers(ctx, c, g, there); err != nil {
		return err
	}
	if err := x.tellLinks(ctx, c, g, there); err != nil {
		return err
	}
	return x.tellData(ctx, t, c, g)
}

// tellSelector declares a group whose members a selector chooses.
func (x *shown) tellSelector(ctx context.Context, c *channel, g *group, there string) error {
	chosen, err := x.site.selected(g.Selector)
	if err != nil {
		return protocol.Errorf(protocol.InvalidParameter, "%v", err)
	}
	if chosen == there {
		return nil
	}
	return x.ask(ctx, "group.declare", x.of(c, map[string]any{"group_id": g.ID, "selector": chosen}), nil)
}

// tellMembers adds, changes and removes members of a group.
func (x *shown) tellMembers(ctx context.Context, c *channel, g, there *group) error {
	for _, m := range g.Members {
		name := protocol.SkillID(x.site.named(string(m.Skill)))
		params := x.of(c, map[string]any{"group_id": g.ID, "skill_id": name, "role": m.Role, "attributes": m.Attributes})
		command := "group.member.add"
		if old := there.member(name); old != nil {
			if old.Role == m.Role && maps.Equal(old.Attributes, m.Attributes) {
				continue
			}
			command = "group.member.update"
		}
		if m.Attributes == nil {
			params["attributes"] = map[string]string{}
		}
		if err := x.ask(ctx, command, params, nil); err != nil {
			return err
		}
	}
	return x.removeMembers(ctx, c, g, there)
}

// removeMembers removes the skills of the site from a group that are not in it here.
func (x *shown) removeMembers(ctx context.Context, c *channel, g, there *group) error {
	for _, m := range there.Members {
		local, own := strings.CutPrefix(string(m.Skill), x.site.named(""))
		if !own || g.member(protocol.SkillID(local)) != nil {
			continue
		}
		err := x.ask(ctx, "group.member.remove", x.of(c, map[string]any{"group_id": g.ID, "skill_id": m.Skill}), nil)
		if err != nil && protocol.CodeOf(err) != protocol.NotFound {
			return err
		}
	}
	return nil
}

// emptyGroup takes the skills of the site out of a group that is not here. It ends with
// its last member.
func (x *shown) emptyGroup(ctx context.Context, c *channel, id protocol.GroupID) error {
	there := new(group)
	err := x.ask(ctx, "group.query", x.of(c, map[string]any{"group_id": id}), there)
	switch {
	case err != nil:
		return ignore(err, protocol.NotFound)
	case there.Selector != "":
		return ignore(x.ask(ctx, "group.remove", x.of(c, map[string]any{"group_id": id}), nil), protocol.NotFound)
	}
	return x.removeMembers(ctx, c, &group{ID: id}, there)
}

// tellLinks adds and removes links between members of the site.
func (x *shown) tellLinks(ctx context.Context, c *channel, g, there *group) error {
	ends := func(l edge) map[string]any {
		return x.of(c, map[string]any{"group_id": g.ID, "source_skill_id": l.Source, "target_skill_id": l.Target})
	}
	for _, l := range there.Links {
		source, own := strings.CutPrefix(string(l.Source), x.site.named(""))
		target, too := strings.CutPrefix(string(l.Target), x.site.named(""))
		same := g.link(protocol.SkillID(source), protocol.SkillID(target))
		if !own || !too || same != nil && same.Type == l.Type {
			continue
		}
		if err := ignore(x.ask(ctx, "group.link.remove", ends(l), nil), protocol.NotFound); err != nil {
			return err
		}
	}
	for _, l := range g.Links {
		named := edge{protocol.SkillID(x.site.named(string(l.Source))), protocol.SkillID(x.site.named(string(l.Target))), l.Type}
		if old := there.link(named.Source, named.Target); old != nil && old.Type == l.Type {
			continue
		}
		params := ends(named)
		params["link_type"] = l.Type
		if err := ignore(x.ask(ctx, "group.link.add", params, nil), protocol.AlreadyExists); err != nil {
			return err
		}
	}
	return nil
}

// tellData sets at the centre the values that have changed here.
func (x *shown) tellData(ctx context.Context, t *shownCap, c *channel, g *group) error {
	for _, d := range g.Data {
		at := valueKey{g.ID, d.Key}
		if t.values[at] == d.Revision {
			continue
		}
		var here, there value
		key := map[string]any{"cap_id": c.ID, "group_id": g.ID, "data_key": d.Key}
		if err := x.site.do(ctx, "group.data.get", key, &here); err != nil {
			if protocol.CodeOf(err) == protocol.NotFound {
				continue
			}
			return err
		}
		key = x.of(c, key)
		if err := ignore(x.ask(ctx, "group.data.get", key, &there), protocol.NotFound); err != nil {
			return err
		}
		if here.Type != there.Type || string(here.Value) != string(there.Value) {
			key["data_value"], key["data_type"] = here.Value, here.Type
			if err := x.ask(ctx, "group.data.set", key, nil); err != nil {
				return err
			}
		}
		t.values[at] = d.Revision
	}
	return nil
}

// of completes params with the id that a Cap has at the centre.
func (x *shown) of(c *channel, params map[string]any) map[string]any {
	if params == nil {
		params = map[string]any{}
	}
	params["cap_id"] = x.site.named(string(c.ID))
	return params
}

// ask has the centre run a command, and reads its result unless that is nil.
func (x *shown) ask(ctx context.Context, command string, params, result any) error {
	raw, err := client.Call[json.RawMessage](ctx, x.centre, command, params)
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

// ignore is an error, nil for one of a code.
func ignore(err error, code protocol.Code) error {
	if protocol.CodeOf(err) == code {
		return nil
	}
	return err
}
