package vfs

import (
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// GroupsFor are the names, in order, of the groups in a principal's space that
// have an owner and that it may read. The groups of Caps, and the mirror, are
// not among them.
func (s *Service) GroupsFor(who *protocol.Principal) []string {
	var names []string
	for _, g := range s.opts.Groups.All() {
		if g.Space == spaceOf(who) && s.MayUseFiles(who, g.Name, false) {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return names
}
