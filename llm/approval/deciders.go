package approval

import (
	"maps"
	"slices"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Deciders are those who may decide about a call, of all whom policy lets
// decide. Without roles and people that is everybody.
type Deciders struct {
	Roles       []string          `json:"roles,omitempty" yaml:"roles" doc:"roles, one of which is enough"`
	People      []string          `json:"people,omitempty" yaml:"people" doc:"ids of operators"`
	Substitutes map[string]string `json:"substitutes,omitempty" yaml:"substitutes" doc:"deciders in place of others: the substitute by the id of the person"`
}

func (d *Deciders) unlimited() bool { return len(d.Roles) == 0 && len(d.People) == 0 }

// seats are the places in which somebody may agree, the own one first. No two
// people have the same one, but a person and its substitute have. A substitute
// of the requester has none, nor one of whoever has changed the call: it would act
// on their behalf.
func (d *Deciders) seats(people People, who *protocol.Principal, r *Record) (list []string) {
	own, person := people.of(who.Party()), who.Kind == protocol.KindOperator
	isOwn := func(id string) bool { return person && people.named(id) == own }
	if d.unlimited() || slices.ContainsFunc(d.Roles, who.HasRole) || slices.ContainsFunc(d.People, isOwn) {
		list = append(list, own)
	}
	for _, absent := range slices.Sorted(maps.Keys(d.Substitutes)) {
		if isOwn(d.Substitutes[absent]) && slices.Contains(d.People, absent) && !r.concerns(people, absent) {
			list = append(list, people.named(absent))
		}
	}
	return list
}

// concerns reports whether a person, by one of its ids, wants the call, or has changed it.
func (r *Record) concerns(people People, id string) bool {
	name := people.named(id)
	return name == people.of(r.party()) || name == people.of(r.Editor)
}

// An Agreement is a vote for a call as it is stored.
type Agreement struct {
	Vote
	Seat  string      `json:"seat"`
	Grant grant.Grant `json:"grant"` // of who agreed: it counts as long as that may decide
}

// A Vote is what others see of an agreement.
type Vote struct {
	By     string `json:"by" doc:"people who agreed"`
	For    string `json:"for,omitempty" doc:"in whose place, of a substitute"`
	At     int64  `json:"at" doc:"Unix ms"`
	Reason string `json:"reason,omitempty" doc:"reason"`
}

// needs is the number of those who have to agree.
func (r *Record) needs() int { return max(r.Needs, 1) }

// seats are the places in which somebody may agree to the call at this time.
func (r *Record) seats(people People, who *protocol.Principal) []string {
	list := r.Deciders.seats(people, who, r)
	if r.EscalatedAt == 0 || r.Escalation == nil {
		return list
	}
	for _, seat := range r.Escalation.To.seats(people, who, r) {
		if !slices.Contains(list, seat) {
			list = append(list, seat)
		}
	}
	return list
}

// seat is the first free place of somebody, or why there is none.
func (r *Record) seat(people People, who *protocol.Principal) (string, error) {
	taken := make(map[string]string, len(r.Agreed))
	for _, a := range r.Agreed {
		if people.same(a.Grant.Party(), who.Party()) {
			return "", protocol.Errorf(protocol.InvalidState, "you have approved it already; %d of %d have", len(r.Agreed), r.needs()).
				With("state", string(r.State)).With("reason", "voted")
		}
		taken[a.Seat] = a.By
	}
	by := ""
	for _, seat := range r.seats(people, who) {
		if by = taken[seat]; by == "" {
			return seat, nil
		}
	}
	return "", protocol.Errorf(protocol.InvalidState, "%s has approved it in the same place already", by).
		With("state", string(r.State)).With("reason", "voted")
}

// agreedBy is the approval with one more vote: it is approved if that is the last
// that was needed.
func (s *Service) agreedBy(who *protocol.Principal, r *Record, reason string) (*Record, error) {
	next := *r
	next.Agreed = s.standing(r)
	seat, err := next.seat(s.opts.People, who)
	if err != nil {
		return nil, err
	}
	vote := Vote{By: who.ID, At: ms(s.opts.Now()), Reason: reason}
	if seat != s.opts.People.of(who.Party()) {
		vote.For = seat
	}
	next.Agreed = append(next.Agreed, Agreement{Vote: vote, Seat: seat, Grant: grant.Of(who)})
	if len(next.Agreed) >= next.needs() {
		next.State, next.DecidedBy, next.DecidedAt, next.Reason = Approved, vote.By, vote.At, reason
	}
	return &next, nil
}

// standing are the votes that still count: not those of somebody whose
// credential was taken back, or who may not decide any more, and one for each person. A
// credential whose time is over was good when it was used.
func (s *Service) standing(r *Record) []Agreement {
	var list []Agreement
	for _, a := range r.Agreed {
		if slices.ContainsFunc(list, func(counted Agreement) bool { return s.opts.People.same(counted.Grant.Party(), a.Grant.Party()) }) {
			continue
		}
		now, err := s.opts.Grants.Principal(a.Grant)
		if err != nil && !grant.Expired(err) || err == nil && s.mayDecide(now, r) != nil {
			continue
		}
		list = append(list, a)
	}
	return list
}

// lapsed is the approval as it waits again, if votes do not count any more that
// it was approved by; nil if it stays approved.
func (s *Service) lapsed(r *Record) *Record {
	if len(r.Agreed) == 0 { // decided before votes were kept
		return nil
	}
	standing := s.standing(r)
	if len(standing) >= r.needs() {
		return nil
	}
	return r.undecided(standing)
}

// undecided is the approval as it waits again, with the votes that still count.
func (r *Record) undecided(standing []Agreement) *Record {
	next := *r
	next.State, next.Agreed, next.DecidedBy, next.DecidedAt, next.Reason = Pending, standing, "", 0, ""
	return &next
}

// mayDecide says why a principal may not decide. Who the model works for is the
// last to be asked whether it may; so is the skill that asked the model for it,
// and whoever has changed the call.
func (s *Service) mayDecide(who *protocol.Principal, r *Record) error {
	switch {
	case !s.opts.MayDecide(who, r.Space, r.ID):
		return protocol.Errorf(protocol.PermissionDenied, "not allowed").With("action", approvalDecide.Action)
	case s.wants(who, r) && !s.opts.MayDecideOwn(who):
		return protocol.Errorf(protocol.PermissionDenied, "nobody approves what is done for itself").
			With("action", "approval:decide_own").With("reason", "the requester is not the approver")
	case len(r.seats(s.opts.People, who)) == 0:
		return protocol.Errorf(protocol.PermissionDenied, "others decide about this call").
			With("action", approvalDecide.Action).With("reason", "not one of the deciders")
	}
	return nil
}

// wants reports whether a principal is the one that the call is for, by whichever id, or
// the skill that asked the model for it.
func (s *Service) wants(who *protocol.Principal, r *Record) bool {
	return s.opts.People.same(who.Party(), r.party()) || r.Skill != "" && who.Kind == protocol.KindSkill && who.ID == string(r.Skill)
}
