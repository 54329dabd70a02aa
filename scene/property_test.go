package scene

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// A life is a scene in which anything may happen at any time. Nothing runs in
// the background: after every step, what follows from it is done.
type life struct {
	*Service
	around   *surroundings
	scenes   *recordstest.Memory[Scene]
	retained map[string]bool
	heard    map[protocol.SkillID]bool // who takes part, as the events tell
	known    bool                      // whether the events told of a scene
	status   Status                    // the last one told
}

func newLife() *life {
	l := &life{around: newSurroundings(), scenes: recordstest.New[Scene](), retained: map[string]bool{}, heard: map[protocol.SkillID]bool{}}
	l.start()
	return l
}

func (l *life) start() {
	l.Service = New(Options{
		Scenes: l.scenes, Skills: l.around, Channels: l.around, Certificates: l.around, Publish: l.hear,
		Patience: time.Nanosecond, // who is not there is away
	})
	l.begin()
	l.settle()
}

func (l *life) settle() {
	for range 3 { // what is changed is looked at again
		l.look(context.Background())
	}
	ended, end := context.WithCancel(context.Background())
	end()
	l.announce(ended)
}

// hear follows the events as a member does.
func (l *life) hear(_ protocol.Recipients, m protocol.Message) (int, error) {
	if len(m.Payload) == 0 {
		delete(l.retained, m.Topic)
		return 0, nil
	}
	if m.Retain {
		l.retained[m.Topic] = true
	}
	e, err := protocol.DecodeEvent(bytes.Clone(m.Payload), protocol.Limits{})
	if err != nil {
		return 0, err
	}
	var data Event
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return 0, err
	}
	l.status = data.Status
	switch e.Name {
	case declaredEvent:
		l.known, l.heard = true, map[protocol.SkillID]bool{data.Skill: true}
	case joinedEvent:
		l.heard[data.Skill] = true
	case leftEvent:
		delete(l.heard, data.Skill)
	case cancelledEvent:
		l.known, l.heard = false, map[protocol.SkillID]bool{}
	}
	return 0, nil
}

// stored is the scene as it is kept.
func (l *life) stored() string {
	scene, _, _ := l.scenes.Get("default/HOME/home")
	return fmt.Sprintf("%+v", scene)
}

// check holds the scene against what must be true of it at any time.
func (l *life) check(t *rapid.T) {
	scene, _, there := l.scenes.Get("default/HOME/home")
	if l.scenes.Len() > 1 || there != (len(l.retained) == 1) || there != l.known {
		t.Fatalf("%d scenes, %d retained, told of: %t", l.scenes.Len(), len(l.retained), l.known)
	}
	if !there {
		return
	}
	owner := scene.find(scene.Owner)
	if owner == nil || !owner.routes() {
		t.Fatalf("%s owns the scene of %+v", scene.Owner, scene.Members)
	}
	if len(scene.Members) > l.around.channel["home"].MaxMembers {
		t.Fatalf("%d members", len(scene.Members))
	}
	members := map[protocol.SkillID]bool{}
	for i := range scene.Members {
		m := &scene.Members[i]
		members[m.Skill] = true
		if m.routes() && m.Serial == "" {
			t.Fatalf("%s routes without a certificate", m.Skill)
		}
		if m.Barred == "" && m.Serial != "" {
			if current, err := l.around.Current(m.Serial); err != nil || current != m.Serial {
				t.Fatalf("%s takes part by a certificate that ended", m.Skill)
			}
		}
		if !m.routes() && !l.around.Belongs("", "home", m.Skill) {
			t.Fatalf("%s takes part, but not in the Cap", m.Skill)
		}
	}
	if len(members) != len(scene.Members) || !maps.Equal(members, l.heard) {
		t.Fatalf("members %v, as told %v", scene.Members, l.heard)
	}
	l.checkCharge(t, scene, owner)
}

// checkStored checks what holds even before a step's consequences are done.
func (l *life) checkStored(t *rapid.T) {
	for _, scene := range l.scenes.All() {
		if m := scene.find(scene.Acting); !scene.suspended() && (m == nil || !m.routes() || m.Barred != "") {
			t.Fatalf("%q is in charge of %+v", scene.Acting, scene.Members)
		}
	}
}

// checkCharge checks who is in charge: the owner if it can be, else a backup
// that can, else nobody.
func (l *life) checkCharge(t *rapid.T, scene *Scene, owner *Member) {
	can := func(m *Member) bool {
		return m.routes() && m.Barred == "" && l.around.RouteAgentOnline(m.Principal, "", m.Skill)
	}
	var able []protocol.SkillID
	for i := range scene.Members {
		if can(&scene.Members[i]) {
			able = append(able, scene.Members[i].Skill)
		}
	}
	switch {
	case can(owner) && scene.Acting != scene.Owner:
		t.Fatalf("%q is in charge instead of the owner", scene.Acting)
	case len(able) > 0 && !slices.Contains(able, scene.Acting):
		t.Fatalf("%q is in charge, %v could be", scene.Acting, able)
	case len(able) == 0 && !scene.suspended():
		t.Fatalf("%q is in charge and cannot be", scene.Acting)
	}
	if scene.suspended() != (scene.Reason != "") || scene.suspended() != (scene.SuspendedAt != 0) || l.status != scene.status() {
		t.Fatalf("%+v, told: %s", scene, l.status)
	}
}

// The parts of the surroundings that may change.
var (
	lifeAgents = []protocol.AgentID{"agent-router", "agent-spare", "agent-lamp"}
	lifeSkills = []protocol.SkillID{"router", "spare", "lamp"}
	lifeCerts  = []protocol.Serial{routerCert, spareCert, lampCert, newCert}
	lifePeople = map[protocol.SkillID]*protocol.Principal{"router": router, "spare": spare, "lamp": lamp}
)

func TestASceneKeepsItsRulesWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife()
		ctx := context.Background()
		most := rapid.IntRange(2, 4).Draw(t, "most members")
		l.around.channel["home"] = Channel{Active: true, MaxMembers: most}
		skill := func() protocol.SkillID { return rapid.SampledFrom(lifeSkills).Draw(t, "skill") }
		by := func(s protocol.SkillID) *commands.Call { return &commands.Call{Principal: lifePeople[s]} }
		refusals := func(err error) { // whatever is refused is refused for a reason
			if code := protocol.CodeOf(err); err != nil && (code >= "4000" || code < "1000") {
				t.Fatalf("refused with %v", err)
			}
		}
		asOneShould := func(s protocol.SkillID) {
			_, err := l.Declare(ctx, by(s), DeclareParams{Scene: "HOME", Cap: "home", Skill: s, Role: RouteRole,
				CertSN: map[protocol.SkillID]string{"router": routerCert, "spare": spareCert}[s]})
			refusals(err)
		}
		for _, s := range []protocol.SkillID{"router", "spare"} { // not to begin with nothing every time
			if rapid.Bool().Draw(t, "declared") {
				asOneShould(s)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"declare": func(t *rapid.T) {
				s := skill()
				p := DeclareParams{Scene: "HOME", Cap: "home", Skill: s, Owner: rapid.Bool().Draw(t, "owner")}
				p.Role = rapid.SampledFrom([]string{RouteRole, RouteRole, "light"}).Draw(t, "role")
				p.CertSN = string(rapid.SampledFrom(append(lifeCerts, "")).Draw(t, "certificate"))
				_, err := l.Declare(ctx, by(s), p)
				refusals(err)
			},
			"declare as one should": func(t *rapid.T) {
				asOneShould(rapid.SampledFrom([]protocol.SkillID{"router", "spare"}).Draw(t, "skill"))
			},
			"join": func(t *rapid.T) {
				s := skill()
				_, err := l.Join(ctx, by(s), JoinParams{Scene: "HOME", Cap: "home", Skill: s, Role: "light"})
				refusals(err)
			},
			"leave": func(t *rapid.T) {
				s := skill()
				_, err := l.Leave(ctx, by(s), LeaveParams{Scene: "HOME", Cap: "home", Skill: s})
				refusals(err)
			},
			"cancel": func(t *rapid.T) {
				s := skill()
				_, err := l.Cancel(ctx, by(s), CancelParams{Scene: "HOME", Cap: "home", Skill: s})
				refusals(err)
			},
			"come or go": func(t *rapid.T) {
				agent := rapid.SampledFrom(lifeAgents).Draw(t, "agent")
				l.around.online[agent] = rapid.Bool().Draw(t, "online")
				l.AgentChanged(protocol.DefaultSpace, agent)
			},
			"end or issue a certificate": func(t *rapid.T) {
				c := l.around.certs[rapid.SampledFrom(lifeCerts).Draw(t, "certificate")]
				c.ended = rapid.SampledFrom([]protocol.Code{"", protocol.CertificateExpired, protocol.CertificateRevoked}).Draw(t, "code")
				l.SkillChanged(protocol.DefaultSpace, c.skill)
			},
			"enter or leave the Cap": func(t *rapid.T) {
				l.around.members["home"] = rapid.SliceOfDistinct(rapid.SampledFrom(lifeSkills), func(s protocol.SkillID) protocol.SkillID { return s }).Draw(t, "members")
				l.CapChanged(protocol.DefaultSpace, "home")
			},
			"remove or declare the Cap": func(t *rapid.T) {
				if _, there := l.around.channel["home"]; there && rapid.IntRange(0, 3).Draw(t, "whether") == 0 {
					delete(l.around.channel, "home")
				} else {
					l.around.channel["home"] = Channel{Active: rapid.Bool().Draw(t, "active"), MaxMembers: most}
				}
				l.CapChanged(protocol.DefaultSpace, "home")
			},
			"restart": func(t *rapid.T) {
				before := l.stored()
				l.start()
				if after := l.stored(); after != before {
					t.Fatalf("after a restart %s, before %s", after, before)
				}
			},
			"": func(t *rapid.T) {
				l.checkStored(t)
				l.settle()
				l.check(t)
			},
		})
	})
}
