package vfs

import (
	"context"
	"net/url"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/cleartext"
	"github.com/aibridge/aibridge/protocol"
)

var register = commands.Spec{
	Name:    "vfs.register",
	Summary: "Keep the files of a group, or of all, in a remote VFS.",
	Effect:  commands.Write,
	Action:  "vfs:register",
	Errors:  []protocol.Code{protocol.VFSUnavailable, protocol.VFSPermission, protocol.AlreadyExists, protocol.InvalidState},
	Example: `{"vfs_id":"nas","vfs_url":"https://nas.example/vfs","group_name":"skill-a-group"}`,
}

// RegisterParams are the params of vfs.register.
type RegisterParams struct {
	ID           protocol.VFSID     `json:"vfs_id" doc:"name for it"`
	URL          string             `json:"vfs_url" len:"1-512" doc:"address of its interface, https://HOST/vfs"`
	Group        protocol.GroupName `json:"group_name,omitempty" doc:"the group whose files are kept there; cap for the mirror of Caps; all groups when absent, which only an administrator may say"`
	Inside       protocol.GroupName `json:"remote_group,omitempty" doc:"the group over there that takes everything, each group here in a folder of its name; needed to keep cap at another AI Bridge; the same groups when absent"`
	Capabilities []string           `json:"capabilities,omitempty" len:"1-32" each:"1-64" text:"line" doc:"abilities, for people"`
	Credential   string             `json:"credential,omitempty" len:"1-4096" doc:"token or API key for it; kept encrypted, never shown"`
}

// Target implements [commands.Targeter].
func (p RegisterParams) Target() commands.Resource {
	return commands.Resource{Type: "vfs", ID: string(p.ID)}
}

// StatusResult describes a VFS.
type StatusResult struct {
	ID           protocol.VFSID `json:"vfs_id" doc:"id of the VFS"`
	Status       string         `json:"status" enum:"online,offline" doc:"true if it can be reached"`
	Used         int64          `json:"storage_used" doc:"bytes; to who does not manage the space, of the groups that it may read"`
	Total        int64          `json:"storage_total" doc:"bytes; 0 if it does not say, and to who does not manage the space"`
	URL          string         `json:"vfs_url,omitempty" doc:"told to who registered it, and those who manage the space"`
	Group        string         `json:"group_name,omitempty" doc:"the group that is kept there; all when absent"`
	Capabilities []string       `json:"capabilities,omitempty" doc:"capabilities as they were given at vfs.register, for people; absent if none were"`
	Reason       string         `json:"reason,omitempty" doc:"reason why it cannot be reached"`
}

// Register registers a remote VFS, or anew one of the same principal.
func (s *Service) Register(ctx context.Context, call *commands.Call, p RegisterParams) (StatusResult, error) {
	if err := checkURL(p.URL, p.Credential != ""); err != nil {
		return StatusResult{}, err
	}
	if p.ID == LocalID {
		return StatusResult{}, protocol.InvalidParam("vfs_id", "is the bridge's own")
	}
	if err := s.mayMount(ctx, call.Principal, string(p.Group)); err != nil {
		return StatusResult{}, err
	}
	r := &Remote{
		Space: call.Principal.Home(), ID: p.ID, URL: p.URL, Group: string(p.Group), Inside: string(p.Inside),
		Capabilities: p.Capabilities, Owner: call.Principal.Party(), Since: s.opts.Now().UnixMilli(),
	}
	if err := s.seal(r, p.Credential); err != nil {
		return StatusResult{}, err
	}
	key := remoteKey(r.Space, r.ID)
	old, revision, there := s.opts.Remotes.Get(key)
	var err error
	switch {
	case !there:
		_, err = s.opts.Remotes.Create(ctx, key, r)
	case !old.Owner.Includes(r.Owner) && !privileged(call.Principal):
		err = protocol.Errorf(protocol.AlreadyExists, "there is a VFS %q already", p.ID).With("vfs_id", string(p.ID))
	default:
		_, err = s.opts.Remotes.Update(ctx, key, r, revision)
	}
	if err != nil {
		return StatusResult{}, err
	}
	return s.statusOf(ctx, r), nil
}

// mayMount refuses principals that may not choose the VFS of a group.
func (s *Service) mayMount(ctx context.Context, who *protocol.Principal, group string) error {
	if privileged(who) {
		return nil
	}
	if group == "" || group == MirrorGroup {
		return protocol.Errorf(protocol.VFSPermission, "only an administrator may say where the files of all groups are")
	}
	if _, _, ok := capGroup(group); ok {
		return s.admit(ctx, who, group, true)
	}
	if err := s.admit(ctx, who, group, true); err != nil {
		return err
	}
	if g, _, ok := s.opts.Groups.Get(groupKey(who.Home(), group)); ok && !g.Owner.Is(who) {
		return protocol.Errorf(protocol.VFSPermission, "group %q belongs to somebody else", group).With("group_name", group)
	}
	return nil
}

// checkURL refuses a URL that is not of a VFS, or not to be shown a credential.
// The address it resolves to is checked on every request.
func checkURL(text string, credential bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return protocol.InvalidParam("vfs_url", "must be an http or https URL")
	case u.User != nil:
		return protocol.InvalidParam("vfs_url", "may not hold a password: use credential")
	case u.RawQuery != "" || u.Fragment != "":
		return protocol.InvalidParam("vfs_url", "may have no query and no fragment")
	case credential && cleartext.Exposes(u) != "":
		return protocol.InvalidParam("vfs_url", cleartext.Exposes(u))
	}
	return nil
}
