package site

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/selector"
)

// TagSite is the tag that agents of a site have at the centre, with its name.
const TagSite = "site"

// shown holds the agents that were registered at the centre over one client.
type shown struct {
	site   *Site
	centre *client.Client
	told   map[protocol.AgentID]*told   // by the id here
	caps   map[protocol.CapID]*shownCap // by the id here
	swept  struct {
		agents bool      // nothing is left there of an earlier run
		caps   time.Time // when those there were looked at
	}
	carried []protocol.CapID // Caps whose messages are carried, nil until that is said
}

// told is an agent as it is registered at the centre.
type told struct {
	host   *client.HostedAgent
	name   string        // that the host has
	tags   selector.Tags // that the host has, without that of the site
	said   string        // how its skills were described, "" if it is offline there
	skills map[protocol.SkillID]*client.ServedSkill
	states map[protocol.SkillID]string // reported, by the id here
}

func newShown(s *Site, centre *client.Client) *shown {
	return &shown{site: s, centre: centre, told: map[protocol.AgentID]*told{}, caps: map[protocol.CapID]*shownCap{}}
}

// settle has the centre register the agents of this bridge. An agent that cannot be shown is
// noted, and tried again by the next look; the error is that the centre, or this
// bridge, does not answer.
func (x *shown) settle(ctx context.Context) error {
	here, err := x.site.agents(ctx)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(here)) {
		if err := x.tell(ctx, here[id]); err != nil {
			return err
		}
	}
	for id, t := range x.told {
		if here[id] != nil {
			continue
		}
		if err := t.host.Remove(ctx); err != nil {
			return err
		}
		delete(x.told, id)
	}
	x.site.counts(len(x.told))
	if !x.swept.agents {
		if err := x.sweep(ctx, here); err != nil {
			return err
		}
		x.swept.agents = true
	}
	return x.settleCaps(ctx, here)
}

// tell brings an agent's registration and presence at the centre up to date. One
// that has not been online since the site connected is left as it is there:
// offline.
func (x *shown) tell(ctx context.Context, a *agent) error {
	t := x.told[a.local]
	name := x.site.named(string(a.local))
	if t == nil {
		host, err := x.centre.Host(client.Agent{ID: protocol.AgentID(name), Name: a.name, Tags: tagged(a.tags, x.site.Name)})
		if err != nil {
			x.site.complain(name, err)
			return nil
		}
		t = &told{host: host, name: a.name, tags: a.tags, skills: map[protocol.SkillID]*client.ServedSkill{}, states: map[protocol.SkillID]string{}}
		x.told[a.local] = t
	}
	if err := x.describe(ctx, t, a); err != nil {
		return err
	}
	if !a.online || len(a.skills) == 0 {
		if t.said == "" {
			return nil
		}
		t.said = ""
		return t.host.Rest(ctx)
	}
	if err := x.serve(ctx, t, a); err != nil {
		return err
	}
	return x.report(ctx, t, a)
}

// describe gives an agent at the centre the name and the tags that it has here.
func (x *shown) describe(ctx context.Context, t *told, a *agent) error {
	if t.name == a.name && maps.Equal(t.tags, a.tags) {
		return nil
	}
	err := t.host.Describe(ctx, a.name, tagged(a.tags, x.site.Name))
	if passes(err) {
		return err
	}
	if err != nil {
		x.site.complain(string(t.host.ID()), err)
		return nil // and again with the next look
	}
	t.name, t.tags = a.name, a.tags
	return nil
}

// serve registers an agent and its skills, unless nothing has changed.
func (x *shown) serve(ctx context.Context, t *told, a *agent) error {
	said, err := json.Marshal(a.skills)
	if err != nil {
		return err
	}
	if t.said == string(said) {
		return nil
	}
	var skills []client.Skill
	for i := range a.skills {
		k, crosses := x.site.shown(a.local, &a.skills[i])
		if !crosses {
			x.site.complain(string(k.ID), errors.New("its params must be sealed, which does not cross to a centre"))
			continue
		}
		skills = append(skills, k)
	}
	served, err := t.host.ServeSkills(ctx, skills...)
	if passes(err) {
		return err
	}
	x.site.complain(string(t.host.ID()), err)
	kept := map[protocol.SkillID]*client.ServedSkill{}
	for _, k := range served {
		if k != nil {
			kept[k.ID()] = k
		}
	}
	for id, k := range t.skills {
		if kept[id] == nil {
			if err := k.Withdraw(ctx); passes(err) {
				return err
			}
		}
	}
	t.skills = kept
	if err == nil {
		t.said = string(said)
	}
	clear(t.states)
	return nil
}

// report reports to the centre the state that an agent has reported here.
func (x *shown) report(ctx context.Context, t *told, a *agent) error {
	who, err := x.site.principal(ctx)
	if err != nil {
		return err
	}
	for i := range a.skills {
		k := &a.skills[i]
		state, ok := x.site.Reported(who.Home(), a.local, k.ID)
		name := protocol.SkillID(x.site.named(string(k.ID)))
		if !ok || t.skills[name] == nil || t.states[k.ID] == string(state) {
			continue
		}
		_, err := client.Call[struct{}](ctx, x.centre, "state.report", map[string]any{
			"agent_id": t.host.ID(), "skill_id": name, "state": state, "replace": true,
		})
		if passes(err) {
			return err
		}
		x.site.complain(string(t.host.ID())+"/"+string(name), err)
		t.states[k.ID] = string(state)
	}
	return nil
}

// passes reports whether an error may pass by itself, such as a lost line or a code
// that may be retried; else the centre has refused an agent or a skill for good.
func passes(err error) bool {
	if err == nil {
		return false
	}
	answered, ok := errors.AsType[*protocol.Error](err)
	if !ok { // the line is lost, or the site ends
		return true
	}
	switch answered.Code {
	case protocol.TimedOut, protocol.OutcomeUnknown, protocol.Cancelled:
		return true
	}
	return answered.Code.Retry() != protocol.RetryNever
}

// tagged are the tags of an agent at the centre.
func tagged(tags selector.Tags, site string) selector.Tags {
	with := maps.Clone(tags)
	if with == nil {
		with = selector.Tags{}
	}
	with[TagSite] = site
	return with
}

// sweep unregisters leftovers of earlier runs at the centre: agents with the site's
// name that are not here any more.
func (x *shown) sweep(ctx context.Context, here map[protocol.AgentID]*agent) error {
	prefix := x.site.named("")
	var left []protocol.AgentID
	for cursor := ""; ; {
		page, err := client.Call[struct {
			Agents []struct {
				ID protocol.AgentID `json:"agent_id"`
			} `json:"agents"`
			Next string `json:"next_cursor"`
		}](ctx, x.centre, "agent.list", listed(cursor, map[string]any{"find": prefix}))
		if err != nil {
			return err
		}
		for _, a := range page.Agents {
			if local, ok := strings.CutPrefix(string(a.ID), prefix); ok && here[protocol.AgentID(local)] == nil {
				left = append(left, a.ID)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for _, id := range left {
		_, err := client.Call[struct{}](ctx, x.centre, "agent.unregister", map[string]any{"agent_id": id})
		if passes(err) {
			return err
		}
	}
	return nil
}
