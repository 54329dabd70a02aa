package vfs

import (
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// GroupsFor are the names, in order, of the groups with files in the bridge's
// own store that a principal may read.
func (s *Service) GroupsFor(who *protocol.Principal) []string {
	names := slices.DeleteFunc(s.opts.Store.Space(who.Home()).Groups(), func(group string) bool { return !s.MayUseFiles(who, group, false) })
	slices.Sort(names)
	return names
}
