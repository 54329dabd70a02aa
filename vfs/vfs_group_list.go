package vfs

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
)

var groupList = commands.Spec{
	Name:    "vfs.group.list",
	Summary: "List the groups of files that the caller may read.",
	Effect:  commands.Read,
	Action:  "vfs:group.list",
	Example: `{"sort":"-bytes"}`,
}

// GroupListParams are the params of vfs.group.list.
type GroupListParams struct {
	Find string `json:"find,omitempty" len:"1-128" doc:"only groups with this text in their name or their owner, whatever its case"`
	Sort string `json:"sort,omitempty" enum:"id,-id,files,-files,bytes,-bytes,owner,-owner" doc:"field to sort by, the highest first behind a minus; by name if absent"`
	listing.Page
}

// GroupListResult is one page of groups of files.
type GroupListResult struct {
	Groups     []GroupView `json:"groups" doc:"the groups of this page; empty if none fits"`
	Total      int         `json:"total" doc:"number on all pages"`
	NextCursor string      `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// A GroupView is a group of files in a list.
type GroupView struct {
	Name  protocol.GroupName `json:"group_name" doc:"name of the group of files"`
	VFS   protocol.VFSID     `json:"vfs_id" doc:"the VFS that keeps it; local is the bridge's own"`
	Owner string             `json:"owner,omitempty" doc:"the principal that wrote its first file; absent of files of Caps"`
	Files int                `json:"files" doc:"number of its files in the bridge's own VFS; 0 of a group that is kept elsewhere"`
	Bytes int64              `json:"bytes" doc:"room that all kept versions of those files take together"`
}

// filesOrder holds the columns that lists of groups can be sorted by.
var filesOrder = listing.Order[GroupView]{
	ID: func(g GroupView) string { return string(g.Name) },
	Keys: map[string]func(GroupView) listing.Key{
		"files": func(g GroupView) listing.Key { return listing.Number(int64(g.Files)) },
		"bytes": func(g GroupView) listing.Key { return listing.Number(g.Bytes) },
		"owner": func(g GroupView) listing.Key { return listing.Text(g.Owner) },
	},
}

// ListGroups lists the groups of the caller's space that it may read. None is
// an empty list.
func (s *Service) ListGroups(_ context.Context, call *commands.Call, p GroupListParams) (GroupListResult, error) {
	named := listing.Find(p.Find)
	found, err := filesOrder.Select(func(yield func(GroupView) bool) {
		for name := range s.readable(call.Principal) {
			if g := s.groupView(call.Principal, name); named.In(string(g.Name), g.Owner) && !yield(g) {
				return
			}
		}
	}, p.Sort, p.Page)
	if err != nil {
		return GroupListResult{}, err
	}
	return GroupListResult{Groups: found.Items, Total: found.Total, NextCursor: found.Next}, nil
}

// readable are the groups that a principal may read: with files here, and those
// that are known to be kept elsewhere.
func (s *Service) readable(who *protocol.Principal) map[string]bool {
	all := make(map[string]bool)
	for _, name := range s.GroupsFor(who) {
		all[name] = true
	}
	for _, r := range s.opts.Remotes.All() {
		if r.Space == who.Home() && r.Group != "" && s.MayUseFiles(who, string(r.Group), false) {
			all[string(r.Group)] = true
		}
	}
	return all
}

// groupView describes a group. The size of the mirror of all Caps is shown only to
// principals that may read all of it.
func (s *Service) groupView(who *protocol.Principal, name string) GroupView {
	g := GroupView{Name: protocol.GroupName(name), VFS: LocalID}
	if r := s.remoteOf(who.Home(), name); r != nil {
		g.VFS = r.ID
	} else if name != MirrorGroup || privileged(who) {
		g.Files, g.Bytes = s.opts.Store.Space(who.Home()).size(name)
	}
	if owned, _, ok := s.opts.Groups.Get(groupKey(who.Home(), name)); ok {
		g.Owner = owned.Owner.ID
	}
	return g
}
