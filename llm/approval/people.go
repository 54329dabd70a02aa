package approval

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// People are the names of people by their ids: the id of an operator, of any space, or
// space/kind/id of another principal. A person has one vote and one seat, and is the
// requester of a call by each of its ids.
type People map[string]string

// of is the name of a party: of a person the name, of another operator the id, and of
// other parties space, kind and id.
func (p People) of(party protocol.Party) string {
	if name := p.listed(party); name != "" {
		return name
	}
	if party.Kind == protocol.KindOperator {
		return party.ID
	}
	return party.String()
}

// named is the name of the person with an id in a rule or another setting.
func (p People) named(id string) string { return cmp.Or(p[id], id) }

// listed is the name of the person with the id of a party, "" if the settings list
// none.
func (p People) listed(party protocol.Party) string {
	if name := p[party.String()]; name != "" || party.Kind != protocol.KindOperator {
		return name
	}
	return p[party.ID]
}

// same reports whether two parties are one, or ids of the same person.
func (p People) same(a, b protocol.Party) bool {
	return a == b || p.listed(a) != "" && p.listed(a) == p.listed(b)
}

// people returns the people of the settings. The name of a person is one of its ids,
// too. Ids of two people, and invalid ids, are reported to fail.
func (c *Settings) people(fail func(format string, args ...any)) People {
	made := make(People)
	for _, name := range slices.Sorted(maps.Keys(c.People)) {
		for _, id := range append([]string{name}, c.People[name]...) {
			at := fmt.Sprintf("approvals.people.%s", name)
			if !namesSomebody(id) {
				fail("%s: %q is no id of an operator, and no space/kind/id", at, id)
			} else if other := made[id]; other != "" && other != name {
				fail("%s: %s is %s already", at, id, other)
			}
			made[id] = name
		}
	}
	return made
}

// namesSomebody reports whether a text has the form of an operator's id or of
// space/kind/id.
func namesSomebody(text string) bool {
	var party protocol.Party
	switch {
	case text == "" || party.UnmarshalText([]byte(text)) != nil || party.ID == "":
		return false
	case !strings.Contains(text, "/"):
		return true
	}
	return party.Space != "" && slices.Contains([]protocol.Kind{protocol.KindOperator, protocol.KindAgent, protocol.KindSkill}, party.Kind)
}
