package audit

import (
	"context"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var verifyAll = commands.Spec{
	Name:    "audit.verify",
	Summary: "Check every entry of the audit trails of all bridges: what was changed, is missing or stands elsewhere, and where.",
	Effect:  commands.Read,
	Action:  "audit:verify",
	Async:   true,
	Example: `{}`,
}

// VerifyParams may name heads that were noted outside the bridge.
type VerifyParams struct {
	Head  string            `json:"head,omitempty" len:"1-128" doc:"head of an earlier verification, SEQ:HASH: entries up to it must be unchanged"`
	Heads map[string]string `json:"heads,omitempty" doc:"the same for several bridges, by their ids"`
}

// VerifyAll checks the trails of all bridges.
func (s *Service) VerifyAll(ctx context.Context, _ *commands.Call, p VerifyParams) (Verification, error) {
	noted, err := p.heads(s.trail.o.BridgeID)
	if err != nil {
		return Verification{}, err
	}
	if s.others == nil {
		return s.trail.verifyAlone(ctx, noted)
	}
	if err := s.trail.Flush(ctx); err != nil {
		return Verification{}, err
	}
	heads, silent := s.others.Settle(ctx)
	for bridge, head := range heads {
		noted[bridge] = append(noted[bridge], head)
	}
	own := s.trail.o.BridgeID
	noted[own] = append(noted[own], s.trail.Head())
	chains, err := s.all(ctx)
	if err != nil {
		return Verification{}, err
	}
	all, err := VerifyChains(ctx, chains, &s.trail.o, noted)
	if err != nil {
		return Verification{}, err
	}
	all.Silent = silent
	s.trail.problems.Store(int64(len(all.Problems)))
	return all, nil
}

// verifyAlone checks the trail of a bridge that is alone.
func (t *Trail) verifyAlone(ctx context.Context, noted map[string][]Head) (Verification, error) {
	for bridge := range noted {
		if bridge != t.o.BridgeID {
			return Verification{}, protocol.InvalidParam("heads."+bridge, "is no bridge with an audit trail here")
		}
	}
	report, err := t.Verify(ctx, noted[t.o.BridgeID]...)
	return Verification{Report: report}, err
}

// heads reads the heads that were noted, by bridge. The one without a bridge is of
// the bridge that is asked.
func (p *VerifyParams) heads(own string) (map[string][]Head, error) {
	noted := make(map[string][]Head)
	add := func(param, bridge, text string) error {
		head, err := ParseHead(text)
		if err != nil {
			return protocol.InvalidParam(param, err.Error())
		}
		noted[bridge] = append(noted[bridge], head)
		return nil
	}
	if p.Head != "" {
		if err := add("head", own, p.Head); err != nil {
			return nil, err
		}
	}
	for bridge, text := range p.Heads {
		if err := add("heads."+bridge, bridge, text); err != nil {
			return nil, err
		}
	}
	return noted, nil
}

// ParseHeads reads heads as people give them: SEQ:HASH for the bridge own, and
// BRIDGE=SEQ:HASH.
func ParseHeads(own string, texts []string) (map[string][]Head, error) {
	noted := make(map[string][]Head)
	for _, text := range texts {
		bridge, head := own, text
		if i := strings.LastIndexByte(text, '='); i >= 0 {
			bridge, head = text[:i], text[i+1:]
		}
		h, err := ParseHead(head)
		if err != nil {
			return nil, err
		}
		noted[bridge] = append(noted[bridge], h)
	}
	return noted, nil
}
