package vfs

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var status = commands.Spec{
	Name:    "vfs.status",
	Summary: "Show a VFS: whether it can be reached, and how much room it has.",
	Effect:  commands.Read,
	Action:  "vfs:status",
	Errors:  []protocol.Code{protocol.NotFound},
	Example: `{"vfs_id":"nas"}`,
}

// StatusParams are the params of vfs.status.
type StatusParams struct {
	ID protocol.VFSID `json:"vfs_id,omitempty" doc:"as it was registered; the bridge's own when absent"`
}

// Target implements [commands.Targeter].
func (p StatusParams) Target() commands.Resource {
	return commands.Resource{Type: "vfs", ID: string(p.ID)}
}

// Status describes a VFS of the caller's space.
func (s *Service) Status(ctx context.Context, call *commands.Call, p StatusParams) (StatusResult, error) {
	if p.ID == "" || p.ID == LocalID {
		return s.localStatus(ctx, call.Principal), nil
	}
	r, _, err := s.findRemote(call.Principal, p.ID)
	if err != nil {
		return StatusResult{}, err
	}
	return s.statusFor(ctx, call.Principal, r), nil
}

func (s *Service) localStatus(ctx context.Context, who *protocol.Principal) StatusResult {
	result := StatusResult{ID: LocalID}
	usage, err := s.Usage(ctx, who)
	result.fill(usage, err)
	return result
}

// statusFor hides the address and the use of a VFS from callers that neither
// registered it nor manage the space; they see only whether it can be reached.
func (s *Service) statusFor(ctx context.Context, who *protocol.Principal, r *Remote) StatusResult {
	result := s.statusOf(ctx, r)
	if !who.Manages(r.Space) && !r.Owner.Is(who) {
		result.URL, result.Used, result.Total, result.Reason = "", 0, 0, ""
	}
	return result
}

func (s *Service) statusOf(ctx context.Context, r *Remote) StatusResult {
	result := StatusResult{ID: r.ID, URL: r.URL, Group: r.Group, Capabilities: r.Capabilities}
	files, err := s.client(r)
	var usage Usage
	if err == nil {
		usage, err = measure(ctx, files)
	}
	result.fill(usage, err)
	return result
}

func (r *StatusResult) fill(u Usage, err error) {
	r.Status, r.Used, r.Total = "online", u.Used, u.Total
	if err != nil {
		r.Status, r.Reason = "offline", protocol.AsError(err).Message
	}
}
