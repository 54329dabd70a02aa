package policy

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"github.com/aibridge/aibridge/protocol"
)

// A Query asks whether a principal may do an action.
type Query struct {
	Who    *protocol.Principal
	Action string // "skill:invoke"

	Type  string           // family of the resource, "skill"; "" for nothing in particular
	ID    string           // "" on lists, which act on the space
	Space protocol.SpaceID // where it is; "" is the principal's own

	// Facts about the resource, if the caller knows them; else they are looked up
	// when a policy needs them.
	Facts *Facts

	Door     string // mqtt, http, ws
	SenderID string
	Address  netip.Addr
}

// Facts describe a resource beyond its name. Empty ones are
// unknown.
type Facts struct {
	Owner  protocol.Party // the party that registered or declared it
	Cap    string
	Group  string
	Scene  string
	Skill  string
	Agents []string

	Tool, Requester, RequesterKind, Risk string          // of an approval
	Arguments                            json.RawMessage // of its call

	Kind string // of a topic
	Own  bool   // of a topic
}

// Entities looks up the facts about a resource that policies use. It is asked on
// the way of commands and must be fast.
type Entities interface {
	Facts(space protocol.SpaceID, family, id string) (Facts, bool)
}

// world holds the entities that one decision can see. It implements
// [types.EntityGetter].
type world struct {
	subject  *subject
	query    *Query
	space    protocol.SpaceID
	resource cedar.EntityUID
	entities Entities
	action   types.Entity
	reads    reads        // of the policies that decide
	numbers  types.Entity // among the arguments of an approval's call, once the approval was looked at
}

var _ types.EntityGetter = (*world)(nil)

// resourceUID names the resource of a query.
func resourceUID(q *Query, space protocol.SpaceID) cedar.EntityUID {
	switch {
	case q.Type == "":
		return cedar.EntityUID{Type: typeBridge, ID: "bridge"}
	case q.ID == "":
		return cedar.EntityUID{Type: typeSpace, ID: cedar.String(space)}
	}
	return cedar.EntityUID{Type: typeOf(q.Type), ID: cedar.String(q.ID)}
}

// Get implements [types.EntityGetter].
func (w *world) Get(uid types.EntityUID) (types.Entity, bool) {
	switch {
	case uid == w.resource:
		return w.thing(), true
	case uid == w.subject.uid:
		return w.subject.entity, true
	case uid == w.action.UID:
		return w.action, true
	case uid == w.numbers.UID:
		return w.numbers, true
	}
	return types.Entity{}, false
}

// thing is the resource. An agent that acts on itself is one entity.
func (w *world) thing() types.Entity {
	q := w.query
	id := string(w.resource.ID)
	r := cedar.RecordMap{"id": cedar.String(id), "space": cedar.String(w.space)}
	var f Facts
	switch {
	case q.Facts != nil:
		f = *q.Facts
	case w.entities != nil && q.ID != "":
		f, _ = w.entities.Facts(w.space, q.Type, q.ID)
	}
	f.addTo(r, w.subject.who)
	var call arguments
	if f.Arguments != nil && w.reads&readsArguments != 0 {
		call = argumentsOf(f.Arguments)
		w.numbers = types.Entity{UID: numbersOf(w.resource), Tags: cedar.NewRecord(call.numbers)}
		r["numbers"] = w.numbers.UID
	}
	e := types.Entity{
		UID:        w.resource,
		Parents:    cedar.NewEntityUIDSet(cedar.EntityUID{Type: typeSpace, ID: cedar.String(w.space)}),
		Attributes: cedar.NewRecord(r),
		Tags:       cedar.NewRecord(call.texts),
	}
	if w.resource == w.subject.uid && w.subject.who.Home() == w.space {
		e.Parents, e.Tags = w.subject.entity.Parents, w.subject.entity.Tags
	}
	return e
}

// addTo adds the facts as attributes for a principal. An owner that has the
// principal's id, but another kind or space, is left out: policies compare ids, and
// would take the principal for the owner.
func (f *Facts) addTo(r cedar.RecordMap, who *protocol.Principal) {
	owner := f.Owner.ID
	if owner == who.ID && !f.Owner.Is(who) {
		owner = ""
	}
	for _, text := range []struct {
		name  cedar.String
		value string
	}{
		{"owner", owner}, {"cap", f.Cap}, {"group", f.Group}, {"scene", f.Scene}, {"skill", f.Skill}, {"kind", f.Kind},
		{"tool", f.Tool}, {"requester", f.Requester}, {"requester_kind", f.RequesterKind}, {"risk", f.Risk},
	} {
		if text.value != "" {
			r[text.name] = cedar.String(text.value)
		}
	}
	if f.Kind != "" {
		r["own"] = cedar.Boolean(f.Own)
	}
	if len(f.Agents) > 0 {
		agents := make([]cedar.Value, len(f.Agents))
		for i, a := range f.Agents {
			agents[i] = cedar.String(a)
		}
		r["agents"] = cedar.NewSet(agents...)
	}
}

// context is the circumstances of a query: time, door, credential.
func (w *world) context(now time.Time) cedar.Record {
	q, who := w.query, w.subject.who
	c := cedar.RecordMap{
		"time":      cedar.NewDatetime(now),
		"door":      cedar.String(q.Door),
		"method":    cedar.String(who.Method),
		"sender_id": cedar.String(q.SenderID),
	}
	if q.SenderID == "" {
		c["sender_id"] = cedar.String(who.ID)
	}
	if q.Address.IsValid() {
		a := q.Address.Unmap().WithZone("")
		c["address"] = types.IPAddr(netip.PrefixFrom(a, a.BitLen()))
	}
	if who.CertSerial != "" {
		c["certificate"] = cedar.String(who.CertSerial)
	}
	return cedar.NewRecord(c)
}
