package audit

import (
	"cmp"
	"context"
	"slices"

	"github.com/aibridge/aibridge/commands"
)

// A Service answers commands about the trails of all bridges that share a state.
type Service struct {
	trail  *Trail
	others Others // nil for a bridge that is alone
}

// NewService answers about a trail and those of other bridges, nil for none.
func NewService(t *Trail, others Others) *Service { return &Service{t, others} }

// Commands are the commands of the trail.
func (s *Service) Commands() []commands.Command {
	return []commands.Command{
		commands.New(query, s.Query),
		commands.New(verifyAll, s.VerifyAll),
	}
}

// all are the chains of all bridges, in the order of these.
func (s *Service) all(ctx context.Context) (all []Chain, err error) {
	if s.others != nil {
		if all, err = s.others.Chains(ctx); err != nil {
			return nil, err
		}
	}
	all = append(all, s.trail.chain())
	slices.SortFunc(all, func(a, b Chain) int { return cmp.Compare(a.Bridge, b.Bridge) })
	return all, nil
}

// chain is the trail to be read. The record of its birth is asked for elsewhere.
func (t *Trail) chain() Chain {
	return Chain{Bridge: t.o.BridgeID, Log: t.log, Key: t.o.Key, Live: true}
}
