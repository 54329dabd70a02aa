package vfs

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var unregister = commands.Spec{
	Name:    "vfs.unregister",
	Summary: "Forget a remote VFS. Its files stay where they are.",
	Effect:  commands.Write,
	Action:  "vfs:unregister",
	Errors:  []protocol.Code{protocol.NotFound, protocol.VFSPermission},
	Example: `{"vfs_id":"nas"}`,
}

// UnregisterParams are the params of vfs.unregister.
type UnregisterParams struct {
	ID protocol.VFSID `json:"vfs_id" doc:"as it was registered"`
}

// Target implements [commands.Targeter].
func (p UnregisterParams) Target() commands.Resource {
	return commands.Resource{Type: "vfs", ID: string(p.ID)}
}

// UnregisterResult is the result of vfs.unregister.
type UnregisterResult struct {
	ID protocol.VFSID `json:"vfs_id" doc:"id of the VFS that is no longer used"`
}

// Unregister forgets a VFS that the caller registered.
func (s *Service) Unregister(ctx context.Context, call *commands.Call, p UnregisterParams) (UnregisterResult, error) {
	r, revision, err := s.findRemote(call.Principal, p.ID)
	if err != nil {
		return UnregisterResult{}, err
	}
	if !r.Owner.Is(call.Principal) && !privileged(call.Principal) {
		return UnregisterResult{}, protocol.Errorf(protocol.VFSPermission, "VFS %q was registered by somebody else", p.ID).With("vfs_id", string(p.ID))
	}
	key := remoteKey(r.Space, r.ID)
	if err := s.opts.Remotes.Delete(ctx, key, revision); err != nil {
		return UnregisterResult{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key)
	return UnregisterResult(p), nil
}

func (s *Service) findRemote(who *protocol.Principal, id protocol.VFSID) (*Remote, uint64, error) {
	r, revision, ok := s.opts.Remotes.Get(remoteKey(who.Home(), id))
	if !ok {
		return nil, 0, protocol.Errorf(protocol.NotFound, "there is no VFS %q", id).With("vfs_id", string(id))
	}
	return r, revision, nil
}
