package policy

import (
	"hash/maphash"
	"maps"
	"slices"

	"github.com/cedar-policy/cedar-go"

	"github.com/aibridge/aibridge/protocol"
)

// A subject is a principal as policies see it. Connections and requests of the
// same party with the same credential share one.
type subject struct {
	who    *protocol.Principal
	uid    cedar.EntityUID
	entity cedar.Entity
	mighty bool // an administrator, which must always be able to change the policies
}

func newSubject(who *protocol.Principal) *subject {
	uid := cedar.EntityUID{Type: typeOfKind(who.Kind), ID: cedar.String(who.ID)}
	space := who.Home()
	parents := []cedar.EntityUID{{Type: typeSpace, ID: cedar.String(space)}}
	for _, role := range rolesOf(who) {
		parents = append(parents, cedar.EntityUID{Type: typeRole, ID: cedar.String(role)})
	}
	tags := make(cedar.RecordMap, len(who.Attributes))
	for k, v := range who.Attributes {
		tags[cedar.String(k)] = cedar.String(v)
	}
	return &subject{
		who: who,
		uid: uid,
		entity: cedar.Entity{
			UID:        uid,
			Parents:    cedar.NewEntityUIDSet(parents...),
			Attributes: cedar.NewRecord(cedar.RecordMap{"id": cedar.String(who.ID), "space": cedar.String(space)}),
			Tags:       cedar.NewRecord(tags),
		},
		mighty: who.Administrator(),
	}
}

func typeOfKind(k protocol.Kind) cedar.EntityType {
	switch k {
	case protocol.KindAgent:
		return typeAgent
	case protocol.KindSkill:
		return typeSkill
	case protocol.KindBridge:
		return typeBridge
	}
	return typeOperator
}

// rolesOf are the roles of a principal. An agent or a skill without roles has the
// role of its kind; an operator without roles has none.
func rolesOf(who *protocol.Principal) []string {
	if len(who.Roles) > 0 {
		return who.Roles
	}
	switch who.Kind {
	case protocol.KindAgent:
		return []string{protocol.RoleEndAgent}
	case protocol.KindSkill:
		return []string{protocol.RoleSkill}
	}
	return nil
}

// is reports whether the subject is the one of a principal.
func (s *subject) is(who *protocol.Principal) bool {
	o := s.who
	if o == who {
		return true
	}
	return o.ID == who.ID && o.Kind == who.Kind && o.Space == who.Space && o.Credential == who.Credential &&
		o.Method == who.Method && o.CertSerial == who.CertSerial &&
		slices.Equal(o.Roles, who.Roles) && slices.Equal(o.Scopes, who.Scopes) && maps.Equal(o.Attributes, who.Attributes)
}

// hashOf spreads principals; it does not need to tell all of them apart.
func hashOf(seed maphash.Seed, who *protocol.Principal) uint64 {
	h := maphash.String(seed, who.ID)
	if who.Credential != "" {
		h = h*31 + maphash.String(seed, who.Credential)
	}
	return h*31 + maphash.String(seed, string(who.Space))
}
