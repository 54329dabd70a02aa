package approval

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// People are the names of people by their ids: of operators, whatever their space, or of
// a principal of another kind as space/kind/id. A person has one vote and one seat, and
// is the asker of a call whichever of its ids asked.
type People map[string]string

// of names a party: a person by its name, another operator by its id, and everybody else
// by kind, space and id.
func (p People) of(party protocol.Party) string {
	if name := p.listed(party); name != "" {
		return name
	}
	if party.Kind == protocol.KindOperator {
		return party.ID
	}
	return party.String()
}

// named is the name of the person that a rule, or another setting, names by one of its ids.
func (p People) named(id string) string { return cmp.Or(p[id], id) }

// listed is the name of the person that has the id of a party, "" if the settings tell of
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

// people are the ids that the settings list, by person. The name of a person is one of
// its ids, too. It tells fail of ids that are of two people, and of those that name
// nobody.
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

// namesSomebody reports whether a text is the id of an operator, or space/kind/id.
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
