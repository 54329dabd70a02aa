package pki

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

// A Set is the authorities that were made together, as operators see them: those that
// grant certificates, and that of server certificates. The root is that of all.
type Set struct {
	Number  int
	Created time.Time
	Active  time.Time // zero for the first, and those that are staged
	Retired time.Time
	Issues  bool // new certificates are theirs
	Staged  bool // they are trusted, and have issued nothing yet
	Valid   int  // their valid certificates
}

// Sets lists all authorities, the newest first.
func (s *Service) Sets() (all []Set) {
	h, now := s.cas(), s.opts.Now()
	valid := make(map[int]int)
	for _, e := range s.index.all() {
		if e.valid(now) == nil || e.Revoked == nil && now.Before(e.notBefore) {
			valid[e.from.set]++
		}
	}
	for _, set := range h.sets {
		all = append(all, Set{
			Number: set.number, Created: set.created, Active: set.active, Retired: set.retired,
			Issues: set == h.issues, Staged: set.number > h.issues.number, Valid: valid[set.number],
		})
	}
	return all
}

// StageSet makes authorities beside those that issue, under the same root, or finds
// those that a rotation before has left so. They issue nothing before
// [Service.ActivateSet]. It returns their number.
func (s *Service) StageSet(ctx context.Context) (number int, err error) {
	h := s.cas()
	if newest := h.sets[0]; newest.number > h.issues.number {
		return newest.number, nil
	}
	if len(s.opts.Signers) > 0 {
		return 0, protocol.Errorf(protocol.InvalidState, "keys of the authorities are held elsewhere, and are rotated there")
	}
	if h.root.signer == nil {
		return 0, h.root.sealed()
	}
	made := &Hierarchy{Created: s.opts.Now().UTC(), Number: h.sets[0].number + 1}
	if err := makeSet(ctx, made, h.root, made.Created, &s.opts, s.seal); err != nil {
		return 0, fmt.Errorf("make the next authorities: %w", err)
	}
	_, err = s.opts.Authorities.Create(ctx, setKey(made.Number), made)
	if protocol.CodeOf(err) == protocol.AlreadyExists { // another bridge was quicker
		err = nil
	}
	return made.Number, err
}

// ActivateSet has authorities that are staged issue from now on. Certificates of
// the others stay valid.
func (s *Service) ActivateSet(ctx context.Context, number int) error {
	return s.changeSet(ctx, number, func(stored *Hierarchy) {
		if stored.Active.IsZero() {
			stored.Active = s.opts.Now().UTC()
		}
	})
}

// RetireSet removes the keys of authorities, which are not trusted any more. The
// caller has seen to it that they do not issue. It is refused while a certificate
// of theirs is valid.
func (s *Service) RetireSet(ctx context.Context, number int) error {
	at := slices.IndexFunc(s.Sets(), func(set Set) bool { return set.Number == number })
	if at >= 0 && s.Sets()[at].Valid > 0 {
		return protocol.Errorf(protocol.InvalidState, "%d certificates of the authorities of version %d still count: renew or revoke them, or wait until they end", s.Sets()[at].Valid, number)
	}
	return s.changeSet(ctx, number, func(stored *Hierarchy) {
		if !stored.Retired.IsZero() {
			return
		}
		stored.Retired = s.opts.Now().UTC()
		for i, ca := range stored.CAs {
			if ca.Name != rootName {
				stored.CAs[i].Key = nil
			}
		}
	})
}

// errNoSet is the error for an unknown number of authorities.
var errNoSet = errors.New("there are none")

func (s *Service) changeSet(ctx context.Context, number int, edit func(*Hierarchy)) error {
	_, _, err := records.Change(ctx, s.opts.Authorities, setKey(number), func(stored *Hierarchy, _ uint64) (*Hierarchy, error) {
		if stored == nil || max(stored.Number, firstSet) != number {
			return nil, protocol.Wrap(protocol.NotFound, errNoSet, "there are no authorities of version "+strconv.Itoa(number))
		}
		anew := *stored
		anew.CAs = slices.Clone(stored.CAs)
		edit(&anew)
		return &anew, nil
	})
	return err
}
