package approval

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// A person with several ids has one vote, one seat and no say about its own calls.
func TestAPersonIsOneByWhicheverId(t *testing.T) {
	settings := Settings{People: map[string][]string{"alice": {"alice-oidc", "default/agent/alice-bot"}}}
	people := settings.people(func(format string, args ...any) { t.Errorf(format, args...) })
	known := func(o *Options) { o.People = people }
	secondSelf, assistant := person("alice-oidc"), &protocol.Principal{Kind: protocol.KindAgent, ID: "alice-bot", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleRouteAgent}}
	votes := func(t *testing.T, d *desk, a Approval, reasons ...any) {
		t.Helper()
		for i, who := range []*protocol.Principal{person("alice"), secondSelf, person("bob")} {
			if got := reason(d.decide(who, a, "approve", "")); got != reasons[i] {
				t.Errorf("%s is told %v, not %v", who.ID, got, reasons[i])
			}
		}
	}
	t.Run("votes", func(t *testing.T) {
		d := newDesk(t, known, ruled(Rule{Needs: 2}))
		votes(t, d, d.waits(t, heat(bot)), nil, "voted", nil)
	})
	t.Run("is named by one of its ids", func(t *testing.T) {
		d := newDesk(t, known, ruled(Rule{Needs: 2, Deciders: Deciders{People: []string{"alice-oidc", "bob"}}}))
		votes(t, d, d.waits(t, heat(bot)), nil, "voted", nil)
	})
	t.Run("is its own substitute", func(t *testing.T) {
		d := newDesk(t, known, ruled(Rule{Needs: 2, Deciders: Deciders{People: []string{"alice", "bob"}, Substitutes: map[string]string{"bob": "alice-oidc"}}}))
		votes(t, d, d.waits(t, heat(bot)), nil, "voted", nil)
	})
	t.Run("has asked", func(t *testing.T) {
		d := newDesk(t, known)
		votes(t, d, d.waits(t, heat(assistant)), "the requester is not the approver", "the requester is not the approver", nil)
	})
	t.Run("voted by both before they were known as one", func(t *testing.T) {
		d := newDesk(t, ruled(Rule{Needs: 3}))
		a := d.waits(t, heat(bot))
		for _, who := range []*protocol.Principal{person("alice"), secondSelf} {
			if err := d.decide(who, a, "approve", ""); err != nil {
				t.Fatal(err)
			}
		}
		d.opts.People = people
		if err := d.decide(person("bob"), a, "approve", ""); err != nil {
			t.Fatal(err)
		}
		if state := d.state(a.ID); state != Pending {
			t.Errorf("of three people two have agreed, and it is %s", state)
		}
	})
}

func TestNobodyAgreesToItsOwnChange(t *testing.T) {
	r := &Record{Editor: person("alice").Party(), Approval: Approval{State: Pending}}
	people := People{"alice": "alice", "alice-oidc": "alice"}
	if !r.concerns(people, "alice-oidc") || r.concerns(people, "bob") {
		t.Error("whoever changed a call is not known by another id")
	}
}

func TestPeopleAreDeclaredOnce(t *testing.T) {
	for name, test := range map[string]struct {
		people map[string][]string
		rules  []RuleSettings
		fault  string // "" for none
	}{
		"two people":           {people: map[string][]string{"alice": {"a-1"}, "bob": {"b-1"}}},
		"an id of two":         {people: map[string][]string{"alice": {"a-1"}, "bob": {"a-1"}}, fault: "approvals.people.bob: a-1 is alice already"},
		"a name as an id":      {people: map[string][]string{"alice": {"bob"}, "bob": {"b-1"}}, fault: "approvals.people.bob: bob is alice already"},
		"no id":                {people: map[string][]string{"alice": {""}}, fault: `approvals.people.alice: "" is no id`},
		"no kind":              {people: map[string][]string{"alice": {"default/alice-bot"}}, fault: "is no id"},
		"no kind of principal": {people: map[string][]string{"alice": {"default/person/alice-bot"}}, fault: "is no id"},
		"too few people for a rule": {
			people: map[string][]string{"alice": {"a-1"}}, rules: []RuleSettings{{Approvals: 2, Deciders: Deciders{People: []string{"alice", "a-1"}}}},
			fault: "approvals.rules[0].approvals: 2 have to agree, and only 1 people are named",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := DefaultSettings()
			s.People, s.Rules = test.people, test.rules
			var faults []string
			s.Check(func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) })
			switch {
			case test.fault == "" && len(faults) > 0, test.fault != "" && (len(faults) != 1 || !strings.Contains(faults[0], test.fault)):
				t.Errorf("told %q", faults)
			}
		})
	}
}
