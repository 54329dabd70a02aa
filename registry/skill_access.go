package registry

import (
	"context"
	"slices"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A bid is a principal's request to provide a skill, with its grounds.
type bid struct {
	who   *protocol.Principal
	agent *Agent // that is to provide it; nil only to describe it
	join  string // join token, "" for none
}

// describes reports whether the bidder may change the description of a skill.
func (b *bid) describes(r *SkillRecord) bool { return r.Owner.Is(b.who) }

// admit fails if the bidder may not provide a skill of another owner: the owner or
// an operator must have added its agent or made the bid's join token, which is used
// up, or its certificate must be for the skill.
func (s *Service) admit(ctx context.Context, b *bid, r *SkillRecord) error {
	if b.agent == nil {
		return taken(r.ID)
	}
	if r.provider(b.agent.ID) >= 0 || s.trusted(b.who, r.Space, r.ID) {
		return nil
	}
	if b.join == "" {
		return taken(r.ID)
	}
	return s.redeem(ctx, b, r)
}

// trusted reports whether a principal may provide a skill of any owner: an operator of its space,
// the skill itself, or the holder of a certificate for it.
func (s *Service) trusted(who *protocol.Principal, space protocol.SpaceID, id protocol.SkillID) bool {
	switch {
	case who.Manages(space):
		return true
	case who.Home() != space:
		return false
	case who.Kind == protocol.KindSkill && who.ID == string(id):
		return true
	}
	return who.CertSerial != "" && s.opts.CertifiedFor != nil && s.opts.CertifiedFor(who.CertSerial, space, id)
}

// taken is the error for a skill of another owner. It says how to become a provider, as the skills
// of the caller's space are no secret to it.
func taken(id protocol.SkillID) error {
	return protocol.Errorf(protocol.AlreadyExists, "skill %q is somebody else's, who must let other agents in", id).With("skill_id", string(id)).
		With("reason", "its owner or an operator adds other agents with skill.provider.add, or makes a token with skill.join.create that they register it with")
}

// differs is the error for a description that is not the owner's.
func differs(id protocol.SkillID) error {
	return protocol.Errorf(protocol.AlreadyExists, "skill %q was registered by somebody else, and differently", id).With("skill_id", string(id)).
		With("reason", "its version, capabilities and encryption keys must be those that its owner gave")
}

// A NameRecord keeps the name of a skill that is gone for its owner, while Caps still
// know the skill: the owner of a new skill of that name would be a member of their
// groups.
type NameRecord struct {
	Space protocol.SpaceID `json:"space_id"`
	ID    protocol.SkillID `json:"skill_id"`
	Owner protocol.Party   `json:"owner"`
}

// KeptFor is the party whose budget of records the name uses: its space.
func (n *NameRecord) KeptFor() protocol.Party { return protocol.Party{Space: n.Space} }

// keepName keeps the name of a skill that is about to go.
func (s *Service) keepName(ctx context.Context, r *SkillRecord) error {
	if s.opts.Names == nil || r.Owner.ID == "" || len(s.capOwners(r.Space, r.ID)) == 0 {
		return nil
	}
	_, _, err := records.Change(ctx, s.opts.Names, tableKey(r.Space, r.ID), func(old *NameRecord, _ uint64) (*NameRecord, error) {
		if old != nil && old.Owner == r.Owner {
			return old, nil
		}
		return &NameRecord{Space: r.Space, ID: r.ID, Owner: r.Owner}, nil
	})
	return err
}

// capOwners are the owners of the Caps that know a skill.
func (s *Service) capOwners(space protocol.SpaceID, id protocol.SkillID) []protocol.Party {
	if s.opts.CapOwners == nil {
		return nil
	}
	return s.opts.CapOwners(space, id)
}

// mayName is the reason why a principal may not register an agent or a skill of a name,
// whether or not it is free; nil if it may.
func (s *Service) mayName(who *protocol.Principal, space protocol.SpaceID, id string) error {
	if s.opts.MayName == nil {
		return nil
	}
	return s.opts.MayName(space, id, who)
}

// mayTake is the reason why a principal may not register a skill of a name that is free,
// nil if it may: the skill would be a member wherever a Cap knows the name.
func (s *Service) mayTake(ctx context.Context, who *protocol.Principal, space protocol.SpaceID, id protocol.SkillID) error {
	if s.opts.Names == nil || s.trusted(who, space, id) {
		return nil
	}
	kept, revision, wasThere := s.opts.Names.Get(tableKey(space, id))
	owners := s.capOwners(space, id)
	others := slices.ContainsFunc(owners, func(owner protocol.Party) bool { return !owner.Is(who) })
	switch {
	case wasThere && kept.Owner.Is(who):
		return nil
	case wasThere && len(owners) > 0:
		return protocol.Errorf(protocol.AlreadyExists, "skill %q was somebody else's, and Caps still know it", id).With("skill_id", string(id)).
			With("reason", "its owner may register it again, or an operator, or anybody once no Cap and no group knows it")
	case wasThere:
		_ = s.opts.Names.Delete(ctx, tableKey(space, id), revision) // of no more use; another time will do
	case others:
		return protocol.Errorf(protocol.AlreadyExists, "skill %q is known to Caps of others, who would let in whoever registers it", id).With("skill_id", string(id)).
			With("reason", "an operator may register it, or anybody once no Cap and no group of others knows it")
	}
	return nil
}
