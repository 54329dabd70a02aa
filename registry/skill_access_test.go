package registry

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func endAgent(id string) *protocol.Principal {
	return &protocol.Principal{Kind: protocol.KindAgent, ID: id, Space: protocol.DefaultSpace, Roles: []string{protocol.RoleEndAgent}}
}

var operator = &protocol.Principal{Kind: protocol.KindOperator, ID: "otto", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleOperator}}

// newSkillWorld is a world with join tokens, in which lamp owns the skill
// light and thief is another agent.
func newSkillWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := newWorld(t, append([]func(*Options){func(o *Options) {
		o.Joins, o.Names = recordstest.New[JoinRecord](), recordstest.New[NameRecord]()
		o.Stamp = func(id, secret string) []byte {
			h := hmac.New(sha256.New, []byte("pepper"))
			h.Write([]byte(id + "." + secret))
			return h.Sum(nil)
		}
		o.Stamped = func(stamp []byte, id, secret string) bool { return hmac.Equal(o.Stamp(id, secret), stamp) }
	}}, change...)...)
	for _, id := range []string{"lamp", "thief", "lamp-2"} {
		w.do(endAgent(id), "agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"}`, id), nil)
	}
	w.do(endAgent("lamp"), "skill.register", lightBy("lamp", ""), nil)
	return w
}

func lightBy(agent, more string) string {
	return fmt.Sprintf(`{"agent_id":%q,"skill":{"skill_id":"light","name":"Light","capabilities":["on"]}%s}`, agent, more)
}

// providers are the agents of the skill light.
func (w *world) providers() (ids []protocol.AgentID) {
	r, _, _ := w.skills.Get("default/light")
	if r == nil {
		return nil
	}
	for _, p := range r.Providers {
		ids = append(ids, p.AgentID)
	}
	return ids
}

func (w *world) join(who *protocol.Principal, params string) CreateJoinResult {
	w.t.Helper()
	var made CreateJoinResult
	w.do(who, "skill.join.create", params, &made)
	return made
}

func TestAStrangerDoesNotProvideASkill(t *testing.T) {
	t.Parallel()
	w := newSkillWorld(t)
	thief := endAgent("thief")
	err := w.fails(thief, "skill.register", lightBy("thief", ""), protocol.AlreadyExists)
	if reason, _ := err.Details["reason"].(string); !strings.Contains(reason, "skill.provider.add") || !strings.Contains(reason, "skill.join.create") {
		t.Errorf("it is not told what to do: %v", err.Details)
	}
	w.fails(thief, "agent.register", `{"agent_id":"thief","type":"end_agent","skills":[{"skill_id":"light","name":"Light","capabilities":["on"]}]}`, protocol.AlreadyExists)
	w.fails(thief, "skill.register", lightBy("thief", `,"join":"abj_0123456789abcdef.x"`), protocol.PermissionDenied)
	w.fails(thief, "skill.provider.add", `{"skill_id":"light","agent_id":"thief"}`, protocol.PermissionDenied)
	w.fails(thief, "skill.provider.remove", `{"skill_id":"light","agent_id":"lamp"}`, protocol.PermissionDenied)
	w.fails(thief, "skill.join.create", `{"skill_id":"light"}`, protocol.PermissionDenied)
	w.fails(thief, "skill.join.list", `{"skill_id":"light"}`, protocol.PermissionDenied)
	if got := w.providers(); !slices.Equal(got, []protocol.AgentID{"lamp"}) {
		t.Errorf("provided by %v", got)
	}
	if yes, _ := w.SpeaksFor(thief, protocol.DefaultSpace, "light"); yes {
		t.Error("it speaks for the skill")
	}
	// In its own space the name is its own.
	elsewhere := &protocol.Principal{Kind: protocol.KindAgent, ID: "thief", Space: "lab"}
	w.do(elsewhere, "agent.register", `{"agent_id":"thief","type":"end_agent"}`, nil)
	w.do(elsewhere, "skill.register", lightBy("thief", ""), nil)
	for _, command := range []string{"skill.join.create", "skill.join.list"} {
		w.fails(carol, command, `{"skill_id":"light","space_id":"default"}`, protocol.NotFound)
	}
}

func TestTheOwnerAndOperatorsAddProviders(t *testing.T) {
	t.Parallel()
	w := newSkillWorld(t)
	var now ProvidersResult
	w.do(endAgent("lamp"), "skill.provider.add", `{"skill_id":"light","agent_id":"lamp-2"}`, &now)
	if !slices.Equal(now.AgentIDs, []protocol.AgentID{"lamp", "lamp-2"}) || now.Revision == 0 {
		t.Errorf("now %+v", now)
	}
	w.do(endAgent("lamp-2"), "skill.register", lightBy("lamp-2", ""), nil) // as it does at every start
	w.do(operator, "skill.provider.add", `{"skill_id":"light","agent_id":"thief"}`, nil)
	w.do(operator, "skill.provider.add", `{"skill_id":"light","agent_id":"thief"}`, nil) // again
	w.fails(operator, "skill.provider.add", `{"skill_id":"light","agent_id":"nobody"}`, protocol.NotFound)
	w.fails(operator, "skill.provider.add", `{"skill_id":"nothing","agent_id":"lamp"}`, protocol.NotFound)
	w.do(operator, "skill.provider.remove", `{"skill_id":"light","agent_id":"thief"}`, nil)
	w.fails(operator, "skill.provider.remove", `{"skill_id":"light","agent_id":"thief"}`, protocol.NotFound)
	w.fails(endAgent("thief"), "skill.register", lightBy("thief", ""), protocol.AlreadyExists)
	// Who was added takes itself back.
	w.do(endAgent("lamp-2"), "skill.unregister", `{"skill_id":"light"}`, nil)
	if got := w.providers(); !slices.Equal(got, []protocol.AgentID{"lamp"}) {
		t.Errorf("provided by %v", got)
	}
	var out UnregisterSkillResult
	w.do(endAgent("lamp"), "skill.provider.remove", `{"skill_id":"light","agent_id":"lamp"}`, &out)
	if !out.Removed || w.skills.Len() != 0 {
		t.Error("a skill without agents stays")
	}
}

func TestACertificateForASkillLetsItsHolderProvideIt(t *testing.T) {
	t.Parallel()
	const serial = "0123456789abcdef"
	w := newSkillWorld(t, func(o *Options) {
		o.CertifiedFor = func(s protocol.Serial, space protocol.SpaceID, id protocol.SkillID) bool {
			return s == serial && space == protocol.DefaultSpace && id == "light"
		}
	})
	holder := *endAgent("lamp-2")
	holder.CertSerial = serial
	other := *endAgent("thief")
	other.CertSerial = "ffffffffffffffff"
	w.fails(&other, "skill.register", lightBy("thief", ""), protocol.AlreadyExists)
	w.do(&holder, "skill.register", lightBy("lamp-2", ""), nil)
	itself := &protocol.Principal{Kind: protocol.KindSkill, ID: "light", Space: protocol.DefaultSpace}
	w.do(itself, "agent.register", `{"agent_id":"own","type":"end_agent"}`, nil)
	w.do(itself, "skill.register", lightBy("own", ""), nil)
	if got := w.providers(); !slices.Equal(got, []protocol.AgentID{"lamp", "lamp-2", "own"}) {
		t.Errorf("provided by %v", got)
	}
}

func TestAJoinTokenLetsInAsManyAgentsAsItSays(t *testing.T) {
	t.Parallel()
	w := newSkillWorld(t)
	made := w.join(endAgent("lamp"), `{"skill_id":"light"}`)
	if !strings.HasPrefix(made.Token, "abj_"+made.ID+".") || made.Uses != 1 || made.CreatedBy != "lamp" {
		t.Errorf("made %+v", made)
	}
	use := func(who string, want protocol.Code) {
		t.Helper()
		params := lightBy(who, fmt.Sprintf(`,"join":%q`, made.Token))
		if want == "" {
			w.do(endAgent(who), "skill.register", params, nil)
			return
		}
		w.fails(endAgent(who), "skill.register", params, want)
	}
	w.fails(endAgent("lamp-2"), "skill.register", strings.Replace(lightBy("lamp-2", fmt.Sprintf(`,"join":%q`, made.Token)), `["on"]`, `["on","off"]`, 1), protocol.AlreadyExists)
	use("lamp-2", "")
	use("lamp-2", "") // as at every start
	use("thief", protocol.PermissionDenied)
	var list ListJoinsResult
	w.do(operator, "skill.join.list", `{"skill_id":"light"}`, &list)
	if list.Total != 1 || !slices.Equal(list.Joins[0].Agents, []protocol.AgentID{"lamp-2"}) {
		t.Errorf("listed %+v", list)
	}
	for _, j := range w.opts.Joins.All() {
		if strings.Contains(fmt.Sprintf("%+v", *j), strings.Split(made.Token, ".")[1]) {
			t.Error("the secret is stored")
		}
	}
	// Who was removed is not let in again by the token; once revoked nobody is.
	w.do(operator, "skill.provider.remove", `{"skill_id":"light","agent_id":"lamp-2"}`, nil)
	use("lamp-2", protocol.PermissionDenied)
	made = w.join(operator, `{"skill_id":"light","uses":2}`)
	use("lamp-2", "")
	w.fails(endAgent("thief"), "skill.join.revoke", fmt.Sprintf(`{"skill_id":"light","token_id":%q}`, made.ID), protocol.PermissionDenied)
	w.do(endAgent("lamp"), "skill.join.revoke", fmt.Sprintf(`{"skill_id":"light","token_id":%q}`, made.ID), nil)
	w.fails(endAgent("lamp"), "skill.join.revoke", fmt.Sprintf(`{"skill_id":"light","token_id":%q}`, made.ID), protocol.NotFound)
	use("thief", protocol.PermissionDenied)
	if got := w.providers(); !slices.Equal(got, []protocol.AgentID{"lamp", "lamp-2"}) {
		t.Errorf("provided by %v", got)
	}
}

func TestAJoinTokenIsForOneSkillOfOneOwner(t *testing.T) {
	t.Parallel()
	w := newSkillWorld(t)
	w.do(endAgent("lamp"), "skill.register", `{"agent_id":"lamp","skill":{"skill_id":"other","name":"O","capabilities":["on"]}}`, nil)
	forOther := w.join(endAgent("lamp"), `{"skill_id":"other"}`)
	before := w.join(endAgent("lamp"), `{"skill_id":"light"}`)
	refused := func(token string) {
		t.Helper()
		w.fails(endAgent("thief"), "skill.register", lightBy("thief", fmt.Sprintf(`,"join":%q`, token)), protocol.PermissionDenied)
	}
	refused(forOther.Token)
	refused(before.Token + "x")
	refused(strings.Replace(before.Token, before.ID, forOther.ID, 1))
	w.do(endAgent("lamp"), "skill.unregister", `{"skill_id":"light","agent_id":"lamp"}`, nil)
	w.do(endAgent("lamp-2"), "skill.register", lightBy("lamp-2", ""), nil)
	refused(before.Token)
}

func TestAJoinTokenExpires(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newSkillWorld(t)
		defer w.close()
		made := w.join(endAgent("lamp"), `{"skill_id":"light","ttl_seconds":60,"uses":5}`)
		time.Sleep(time.Minute)
		w.fails(endAgent("thief"), "skill.register", lightBy("thief", fmt.Sprintf(`,"join":%q`, made.Token)), protocol.PermissionDenied)
		for range maxJoins {
			w.join(endAgent("lamp"), `{"skill_id":"light"}`)
		}
		w.fails(endAgent("lamp"), "skill.join.create", `{"skill_id":"light"}`, protocol.LimitReached)
		if n := w.opts.Joins.Len(); n != maxJoins {
			t.Errorf("%d tokens are kept", n)
		}
		time.Sleep(defaultJoinLife * time.Second)
		w.join(endAgent("lamp"), `{"skill_id":"light"}`)
		if n := w.opts.Joins.Len(); n != 1 {
			t.Errorf("%d tokens are kept when most have expired", n)
		}
	})
}

func TestAgentsThatJoinAtTheSameTimeAreCounted(t *testing.T) {
	t.Parallel()
	w := newSkillWorld(t)
	const agents, uses = 6, 4
	made := w.join(operator, fmt.Sprintf(`{"skill_id":"light","uses":%d}`, uses))
	for i := range agents {
		w.do(endAgent(fmt.Sprint("a", i)), "agent.register", fmt.Sprintf(`{"agent_id":"a%d","type":"end_agent"}`, i), nil)
	}
	w.opts.Joins.(*recordstest.Memory[JoinRecord]).Yield()
	var all sync.WaitGroup
	for i := range agents {
		id := fmt.Sprint("a", i)
		all.Go(func() {
			w.ask(question{who: endAgent(id), command: "skill.register", params: lightBy(id, fmt.Sprintf(`,"join":%q`, made.Token))})
		})
	}
	all.Wait()
	if got := w.providers(); len(got) != 1+uses {
		t.Errorf("provided by %v", got)
	}
}

// Whoever registers the name of a skill that is gone would be a member of the
// groups that the skill was in.
func TestANameThatCapsKnowStaysItsOwners(t *testing.T) {
	t.Parallel()
	var owners []protocol.Party
	w := newSkillWorld(t, func(o *Options) {
		o.CapOwners = func(space protocol.SpaceID, id protocol.SkillID) []protocol.Party {
			if space != protocol.DefaultSpace || id != "light" {
				return nil
			}
			return owners
		}
	})
	owners = []protocol.Party{operator.Party()}
	gone := map[string]string{
		"skill.unregister": `{"skill_id":"light"}`, "skill.provider.remove": `{"skill_id":"light","agent_id":"lamp"}`, "agent.unregister": `{"agent_id":"lamp"}`,
	}
	for command, params := range gone {
		w.do(endAgent("lamp"), command, params, nil)
		if w.skills.Len() != 0 {
			t.Fatalf("%s leaves the skill", command)
		}
		w.fails(endAgent("thief"), "skill.register", lightBy("thief", ""), protocol.AlreadyExists)
		w.do(endAgent("lamp"), "agent.register", `{"agent_id":"lamp","type":"end_agent"}`, nil)
		w.do(endAgent("lamp"), "skill.register", lightBy("lamp", ""), nil)
	}
	w.do(endAgent("lamp"), "skill.unregister", `{"skill_id":"light","agent_id":"lamp"}`, nil)
	w.do(operator, "skill.register", `{"agent_id":"lamp-2","skill":{"skill_id":"light","name":"Light","capabilities":["on"]}}`, nil)
	if r, _, _ := w.skills.Get("default/light"); r.Owner != operator.Party() {
		t.Errorf("an operator gave it to %s", r.Owner)
	}
	w.do(operator, "skill.unregister", `{"skill_id":"light"}`, nil)
	owners = nil
	w.do(endAgent("thief"), "skill.register", lightBy("thief", ""), nil)
	if n := w.opts.Names.Len(); n != 0 {
		t.Errorf("%d names are kept", n)
	}
}

// Whoever takes a name that a Cap knows already is a member of the Cap, so it is
// for those whose Caps they are.
func TestAFreeNameThatCapsKnowIsForTheirOwners(t *testing.T) {
	t.Parallel()
	alice, bob := endAgent("alice").Party(), endAgent("bob").Party()
	for name, test := range map[string]struct {
		owners []protocol.Party
		may    []string
	}{
		"a Cap of one":      {[]protocol.Party{alice}, []string{"alice"}},
		"two Caps of one":   {[]protocol.Party{alice, alice}, []string{"alice"}},
		"Caps of two":       {[]protocol.Party{alice, bob}, nil},
		"an operator's Cap": {[]protocol.Party{operator.Party()}, nil},
		"no Cap":            {nil, []string{"alice", "thief"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, id := range []string{"alice", "thief"} {
				w := newSkillWorld(t, func(o *Options) {
					o.CapOwners = func(_ protocol.SpaceID, id protocol.SkillID) []protocol.Party {
						if id != "free" {
							return nil
						}
						return test.owners
					}
				})
				w.do(endAgent(id), "agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"}`, id), nil)
				params := fmt.Sprintf(`{"agent_id":%q,"skill":{"skill_id":"free","name":"Free","capabilities":["on"]}}`, id)
				if slices.Contains(test.may, id) {
					w.do(endAgent(id), "skill.register", params, nil)
					continue
				}
				w.fails(endAgent(id), "skill.register", params, protocol.AlreadyExists)
				w.do(operator, "skill.register", `{"skill":{"skill_id":"free","name":"Free","capabilities":["on"]}}`, nil)
			}
		})
	}
}

// Of records without an owner operators decide; who provides them goes on.
func TestASkillWithoutAnOwnerIsTheOperators(t *testing.T) {
	t.Parallel()
	w := newSkillWorld(t)
	r, revision, _ := w.skills.Get("default/light")
	orphan := *r
	orphan.Owner = protocol.Party{}
	if _, err := w.skills.Update(t.Context(), "default/light", &orphan, revision); err != nil {
		t.Fatal(err)
	}
	w.fails(endAgent("thief"), "skill.register", lightBy("thief", ""), protocol.AlreadyExists)
	w.do(endAgent("lamp"), "skill.register", lightBy("lamp", ""), nil)
	w.fails(endAgent("lamp"), "skill.provider.add", `{"skill_id":"light","agent_id":"lamp-2"}`, protocol.PermissionDenied)
	w.do(operator, "skill.provider.add", `{"skill_id":"light","agent_id":"lamp-2"}`, nil)
}
