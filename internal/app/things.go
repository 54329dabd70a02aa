package app

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/aibridge/aibridge/commands"
	httpdoor "github.com/aibridge/aibridge/doors/http"
	"github.com/aibridge/aibridge/doors/http/thing"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
)

// things serves the Thing Descriptions of the skills that a caller may invoke: all of
// them, as a directory of the Web of Things has them, or one.
func things(s *state, d *domains, authenticate authentication) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this path takes GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		who, err := authenticate(r)
		if err == nil {
			if limited := s.quotas.Admit(who, 0); limited != nil {
				err = limited
			}
		}
		if err != nil {
			httpdoor.Refuse(w, err)
			return
		}
		kind, text, err := thing.MediaType, []byte(nil), error(nil)
		if id := r.PathValue("skill"); id == "" {
			kind = "application/ld+json"
			text, err = allThings(r, s, d, who)
		} else {
			text, err = oneThing(r, s, d, who, protocol.SkillID(id))
		}
		if err != nil {
			httpdoor.Refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text)
	})
}

// allThings describes the skills that a principal may invoke, with [maxDescribed]
// capabilities at most.
func allThings(r *http.Request, s *state, d *domains, who *protocol.Principal) ([]byte, error) {
	all, count := []json.RawMessage{}, 0
	for _, skill := range skillsFor(r.Context(), s, d, who) {
		if count += max(1, len(skill.Capabilities)); count > maxDescribed {
			break
		}
		text, err := asThing(r, s, who, skill).Describe()
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return json.Marshal(all)
}

// oneThing describes a skill. One that the caller may not invoke looks as one that is
// not there.
func oneThing(r *http.Request, s *state, d *domains, who *protocol.Principal, id protocol.SkillID) ([]byte, error) {
	list := skillsFor(r.Context(), s, d, who)
	at := slices.IndexFunc(list, func(skill *registry.SkillRecord) bool { return skill.ID == id })
	if at < 0 {
		return nil, protocol.Errorf(protocol.NotFound, "there is no skill %q", id).With("skill_id", string(id))
	}
	return asThing(r, s, who, list[at]).Describe()
}

// asThing is a skill at the address that the caller knows the bridge by, with the
// agents that it may see.
func asThing(r *http.Request, s *state, who *protocol.Principal, skill *registry.SkillRecord) *thing.Thing {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	t := &thing.Thing{
		Bridge: s.config.ID, Space: who.Home(), Skill: skill.ID, Title: skill.Name, Description: skill.Description, Topics: s.topics, HTTP: scheme + r.Host,
		MQTT: cmp.Or(thing.Address(seenFrom(r, s.addresses.MQTTS), true), thing.Address(seenFrom(r, s.addresses.MQTT), false)), Open: who.HasRole(protocol.RoleAnonymous),
	}
	for i := range skill.Capabilities {
		if c := &skill.Capabilities[i]; c.Sealed != registry.SealedRequired {
			t.Capabilities = append(t.Capabilities, thing.Capability{
				ID: c.ID, Title: c.Name, Description: c.Description, Reads: c.Effect == registry.Reads, Idempotent: c.Idempotent,
				Params: json.RawMessage(c.ParamsSchema.String()), Result: json.RawMessage(c.ResultSchema.String()),
			})
		}
	}
	for _, p := range skill.Providers {
		if len(t.Agents) < thing.MaxAgents && s.authorizer.Authorize(r.Context(), who, "agent:get", commands.Resource{Type: "agent", ID: string(p.AgentID), Space: who.Home()}) == nil {
			t.Agents = append(t.Agents, p.AgentID)
		}
	}
	slices.Sort(t.Agents)
	return t
}
