package security

import (
	"cmp"
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/quota"
)

var quotaGet = commands.Spec{
	Name:    "quota.get",
	Summary: "Show how far a principal, and its space, have used up their limits: at all bridges and at each.",
	Effect:  commands.Read,
	Action:  "quota:get",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"principal_id":"lamp-1"}`,
}

// QuotaGetParams are the params of quota.get.
type QuotaGetParams struct {
	Principal protocol.AgentID `json:"principal_id,omitempty" doc:"owner of the limits, the caller by default; a principal that nobody knows uses nothing"`
	Kind      protocol.Kind    `json:"kind,omitempty" enum:"operator,agent,skill" default:"agent" doc:"kind of party"`
	Space     protocol.SpaceID `json:"space_id,omitempty" doc:"its space, the caller's own by default"`
}

// Target implements [commands.Targeter].
func (p QuotaGetParams) Target() commands.Resource {
	return commands.Resource{Type: "quota", ID: string(p.Principal), Space: p.Space}
}

// QuotaGetResult is the result of quota.get.
type QuotaGetResult struct {
	PrincipalID string           `json:"principal_id" doc:"owner of the limits"`
	Kind        protocol.Kind    `json:"kind" doc:"operator, agent or skill"`
	SpaceID     protocol.SpaceID `json:"space_id" doc:"its space"`
	Principal   []QuotaView      `json:"principal" doc:"amount that it may take by itself"`
	Space       []QuotaView      `json:"space" doc:"total that all of its space may take together, administrators apart"`
	BridgeID    string           `json:"bridge_id" doc:"the bridge that answers"`
	Silent      []string         `json:"silent,omitempty" doc:"other bridges that did not tell in time what is used there; absent if all did"`
}

// A QuotaView is one limit.
type QuotaView struct {
	Limit    string           `json:"limit" doc:"requests, refusals, messages and bytes, each in a second; connections, retained, retained_bytes, sessions and records at a time"`
	Most     int64            `json:"most,omitempty" doc:"the limit; absent if there is none"`
	Used     int64            `json:"used" doc:"at all bridges; of a limit in a second, how much of it is not free again yet, which without a limit is 0"`
	UsedHere int64            `json:"used_here" doc:"at the bridge that answers"`
	Share    int64            `json:"share_here,omitempty" doc:"part of a limit in a second that the bridge that answers gives, while others give the rest; absent if all"`
	Bridges  map[string]int64 `json:"bridges,omitempty" doc:"used at each of the other bridges, by id; absent where all count the same things, and for a bridge that works alone"`
}

// A QuotaQuestion names the principal whose levels one bridge asks of others.
type QuotaQuestion struct {
	Party      protocol.Party `json:"party"`
	Privileged bool           `json:"privileged,omitempty"`
}

// QuotaLevels are those of a principal and of its space, at one bridge.
type QuotaLevels struct {
	Principal []quota.Level `json:"principal"`
	Space     []quota.Level `json:"space"`
}

// QuotaOptions configure a [QuotaService]. Keeper and Index are needed.
type QuotaOptions struct {
	BridgeID string
	Keeper   *quota.Keeper
	Index    *KeyIndex // knows the administrators
	// Holds is the part that the broker keeps for a party, or for a space if it has no
	// id.
	Holds func(protocol.Party) quota.Holding
	// Others asks the other bridges of the cluster; nil for a bridge that works alone.
	Others func(context.Context, QuotaQuestion) (levels map[string]QuotaLevels, silent []string)
}

// A QuotaService shows quotas.
type QuotaService struct{ QuotaOptions }

// NewQuotaService returns the service.
func NewQuotaService(o QuotaOptions) *QuotaService { return &QuotaService{o} }

// Commands are the commands of the family.
func (s *QuotaService) Commands() []commands.Command {
	return []commands.Command{commands.New(quotaGet, s.Get)}
}

// Here are the levels at this bridge.
func (s *QuotaService) Here(q QuotaQuestion) QuotaLevels {
	space := protocol.Party{Space: q.Party.Space}
	return QuotaLevels{
		Principal: s.Keeper.Levels(q.Party, q.Privileged, s.holds(q.Party)),
		Space:     s.Keeper.Levels(space, false, s.holds(space)),
	}
}

func (s *QuotaService) holds(p protocol.Party) quota.Holding {
	if s.Holds == nil {
		return quota.Holding{}
	}
	return s.Holds(p)
}

// Get shows the quotas of a principal.
func (s *QuotaService) Get(ctx context.Context, call *commands.Call, p QuotaGetParams) (QuotaGetResult, error) {
	space, err := spaceFor(call, p.Space)
	if err != nil {
		return QuotaGetResult{}, err
	}
	question := QuotaQuestion{Party: call.Principal.Party(), Privileged: call.Principal.Unbounded()}
	if p.Principal != "" {
		question.Party = protocol.Party{Kind: cmp.Or(p.Kind, protocol.KindAgent), Space: space, ID: string(p.Principal)}
		question.Privileged = s.privileged(question.Party)
	}
	here := s.Here(question)
	var others map[string]QuotaLevels
	result := QuotaGetResult{PrincipalID: question.Party.ID, Kind: question.Party.Kind, SpaceID: question.Party.Space, BridgeID: s.BridgeID}
	if s.Others != nil {
		others, result.Silent = s.Others(ctx, question)
	}
	result.Principal = quotaViews(here.Principal, others, func(l QuotaLevels) []quota.Level { return l.Principal })
	result.Space = quotaViews(here.Space, others, func(l QuotaLevels) []quota.Level { return l.Space })
	return result, nil
}

// privileged reports whether a party has a key by which it may do everything.
func (s *QuotaService) privileged(party protocol.Party) bool {
	for _, key := range s.Index.Of(party) {
		if key.live(time.Now()) && key.principal().Unbounded() {
			return true
		}
	}
	return false
}

// quotaViews adds to the levels of this bridge those of others.
func quotaViews(here []quota.Level, others map[string]QuotaLevels, of func(QuotaLevels) []quota.Level) []QuotaView {
	views := make([]QuotaView, 0, len(here))
	for _, l := range here {
		v := QuotaView{Limit: l.Limit, Most: l.Most, Used: l.Used, UsedHere: l.Used, Share: l.Share}
		for bridge, there := range others {
			for _, other := range of(there) {
				if l.Same || other.Limit != l.Limit {
					continue
				}
				if v.Bridges == nil {
					v.Bridges = make(map[string]int64)
				}
				v.Bridges[bridge] = other.Used
				v.Used += other.Used
			}
		}
		views = append(views, v)
	}
	return views
}
