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
func (d *Deciders) seats(who *protocol.Principal, r *Record) (list []string) {
	person := who.Kind == protocol.KindOperator
	switch {
	case person && slices.Contains(d.People, who.ID):
		list = append(list, who.ID)
	case d.unlimited(), slices.ContainsFunc(d.Roles, who.HasRole):
		list = append(list, seatOf(who))
	}
	for _, absent := range slices.Sorted(maps.Keys(d.Substitutes)) {
		if person && d.Substitutes[absent] == who.ID && slices.Contains(d.People, absent) && !r.concerns(absent) {
			list = append(list, absent)
		}
	}
	return list
}

// concerns reports whether a person wants the call, or has changed it.
func (r *Record) concerns(person string) bool {
	return person == r.Requester && r.Kind == protocol.KindOperator || person == r.Editor.ID && r.Editor.Kind == protocol.KindOperator
}

// seatOf is the place of somebody who has none by name: people have those of
// their names.
func seatOf(who *protocol.Principal) string {
	if who.Kind == protocol.KindOperator {
		return who.ID
	}
	return who.Party().String()
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
func (r *Record) seats(who *protocol.Principal) []string {
	list := r.Deciders.seats(who, r)
	if r.EscalatedAt == 0 || r.Escalation == nil {
		return list
	}
	for _, seat := range r.Escalation.To.seats(who, r) {
		if !slices.Contains(list, seat) {
			list = append(list, seat)
		}
	}
	return list
}

// seat is the first free place of somebody, or why there is none.
func (r *Record) seat(who *protocol.Principal) (string, error) {
	taken := make(map[string]string, len(r.Agreed))
	for _, a := range r.Agreed {
		if a.Grant.By(who) {
			return "", protocol.Errorf(protocol.InvalidState, "you have approved it already; %d of %d have", len(r.Agreed), r.needs()).
				With("state", string(r.State)).With("reason", "voted")
		}
		taken[a.Seat] = a.By
	}
	by := ""
	for _, seat := range r.seats(who) {
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
	seat, err := next.seat(who)
	if err != nil {
		return nil, err
	}
	vote := Vote{By: who.ID, At: ms(s.opts.Now()), Reason: reason}
	if seat != seatOf(who) {
		vote.For = seat
	}
	next.Agreed = append(next.Agreed, Agreement{Vote: vote, Seat: seat, Grant: grant.Of(who)})
	if len(next.Agreed) >= next.needs() {
		next.State, next.DecidedBy, next.DecidedAt, next.Reason = Approved, vote.By, vote.At, reason
	}
	return &next, nil
}

// standing are the votes that still count: not those of somebody whose
// credential was taken back, or who may not decide any more. A credential whose
// time is over was good when it was used.
func (s *Service) standing(r *Record) []Agreement {
	var list []Agreement
	for _, a := range r.Agreed {
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
	case r.wantedBy(who) && !s.opts.MayDecideOwn(who):
		return protocol.Errorf(protocol.PermissionDenied, "nobody approves what is done for itself").
			With("action", "approval:decide_own").With("reason", "the requester is not the approver")
	case len(r.seats(who)) == 0:
		return protocol.Errorf(protocol.PermissionDenied, "others decide about this call").
			With("action", approvalDecide.Action).With("reason", "not one of the deciders")
	}
	return nil
}

// wantedBy reports whether a principal is the one that the call is for, or the
// skill that asked the model for it.
func (r *Record) wantedBy(who *protocol.Principal) bool {
	return r.requestedBy(who) || r.Skill != "" && who.Kind == protocol.KindSkill && who.ID == string(r.Skill)
}
