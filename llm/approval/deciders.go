package approval

import (
	"maps"
	"slices"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// Deciders restrict the principals that may decide about a call, among those that
// policy allows. Without roles and people there is no restriction.
type Deciders struct {
	Roles       []string          `json:"roles,omitempty" yaml:"roles" doc:"roles, one of which is enough"`
	People      []string          `json:"people,omitempty" yaml:"people" doc:"ids of operators"`
	Substitutes map[string]string `json:"substitutes,omitempty" yaml:"substitutes" doc:"deciders in place of others: the substitute by the id of the person"`
}

func (d *Deciders) unlimited() bool { return len(d.Roles) == 0 && len(d.People) == 0 }

// seats returns the seats in which a principal may approve, its own first. Two people
// never share a seat, but a person and its substitute do. A substitute of the
// requester, or of the call's editor, has no seat for that person, since it would act
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

// concerns reports whether a person is, by one of its ids, the requester or the editor
// of the call.
func (r *Record) concerns(people People, id string) bool {
	name := people.named(id)
	return name == people.of(r.party()) || name == people.of(r.Editor)
}

// An Agreement is the stored form of a vote for a call.
type Agreement struct {
	Vote
	Seat  string      `json:"seat"`
	Grant grant.Grant `json:"grant"` // credential of the voter, on which the vote depends
}

// A Vote is the part of an agreement for results and events.
type Vote struct {
	By     string `json:"by" doc:"approver"`
	For    string `json:"for,omitempty" doc:"represented person, for a substitute"`
	At     int64  `json:"at" doc:"Unix ms"`
	Reason string `json:"reason,omitempty" doc:"reason"`
}

// needs is the number of required votes.
func (r *Record) needs() int { return max(r.Needs, 1) }

// seats returns the seats in which a principal may approve the call now.
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

// seat returns the first free seat of a principal, or an error.
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

// agreedBy is the approval with one more vote, approved if that is the last required
// one.
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

// standing returns the votes that still count: one for each person, without those whose
// credential was revoked or whose voter may not decide any more. An expired credential
// counts, since it was valid at the vote.
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

// lapsed is the approval in state Pending if too few of its votes still count; nil if
// it stays approved.
func (s *Service) lapsed(r *Record) *Record {
	if len(r.Agreed) == 0 { // of a release without stored votes
		return nil
	}
	standing := s.standing(r)
	if len(standing) >= r.needs() {
		return nil
	}
	return r.undecided(standing)
}

// undecided is the approval in state Pending, with the votes that still count.
func (r *Record) undecided(standing []Agreement) *Record {
	next := *r
	next.State, next.Agreed, next.DecidedBy, next.DecidedAt, next.Reason = Pending, standing, "", 0, ""
	return &next
}

// mayDecide returns the error of a principal that may not decide. The requester, and
// the skill on whose behalf the model was asked, may only with a right of their own.
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

// wants reports whether a principal is the requester of the call, by any of its ids, or
// the skill on whose behalf the model was asked.
func (s *Service) wants(who *protocol.Principal, r *Record) bool {
	return s.opts.People.same(who.Party(), r.party()) || r.Skill != "" && who.Kind == protocol.KindSkill && who.ID == string(r.Skill)
}
