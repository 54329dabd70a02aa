package vfs

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var health = commands.Spec{
	Name:    "vfs.health",
	Summary: "Show whether every VFS of the space can be reached.",
	Effect:  commands.Read,
	Action:  "vfs:health",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{}`,
}

// HealthParams are the params of vfs.health.
type HealthParams struct {
	ID protocol.VFSID `json:"vfs_id,omitempty" doc:"ask for this one only"`
}

// HealthResult is the result of vfs.health. On top is the bridge's own VFS, or
// the one that was asked for.
type HealthResult struct {
	StatusResult
	Others []StatusResult `json:"others,omitempty" doc:"the remote ones, at most 32"`
}

// maxAsked bounds how many remote VFSs are asked how they are.
const maxAsked = 32

// Health describes every VFS of the caller's space.
func (s *Service) Health(ctx context.Context, call *commands.Call, p HealthParams) (HealthResult, error) {
	if p.ID != "" {
		one, err := s.Status(ctx, call, StatusParams(p))
		return HealthResult{StatusResult: one}, err
	}
	result := HealthResult{StatusResult: s.localStatus(ctx, call.Principal)}
	answers := make(chan StatusResult, maxAsked)
	asked := 0
	for _, r := range s.opts.Remotes.All() {
		if r.Space == call.Principal.Home() && asked < maxAsked {
			asked++
			go func() { answers <- s.statusFor(ctx, call.Principal, r) }()
		}
	}
	for range asked {
		result.Others = append(result.Others, <-answers)
	}
	return result, nil
}
