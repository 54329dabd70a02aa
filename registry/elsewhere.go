package registry

import (
	"fmt"
	"slices"

	"github.com/aibridge/aibridge/protocol"
)

// maxSpacesNamed bounds the spaces that an error names.
const maxSpacesNamed = 5

// missing is the error for a thing that is not in the space that a call is about. A
// caller that may see every space and has named none is told which spaces have a
// thing of that id.
func (s *Service) missing(who *protocol.Principal, named protocol.SpaceID, what, id string, has func(*space) bool) *protocol.Error {
	err := notFound(what, id)
	if named != "" || !everywhere(who) {
		return err
	}
	spaces := s.index.spacesWith(has)
	if len(spaces) == 0 {
		return err
	}
	err.Message = fmt.Sprintf("there is no %s %q in space %q, which is meant without space_id; there is one in %q: name it as space_id",
		what, id, who.Home(), spaces[0])
	return err.With("space_ids", spaces[:min(len(spaces), maxSpacesNamed)])
}

// spacesWith lists the spaces that have something, in order.
func (x *index) spacesWith(has func(*space) bool) []protocol.SpaceID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var ids []protocol.SpaceID
	for id, s := range x.spaces {
		if has(s) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// The things that a space may have.
func agentOf(id protocol.AgentID) func(*space) bool {
	return func(s *space) bool { return s.agents.has(string(id)) }
}

func skillOf(id protocol.SkillID) func(*space) bool {
	return func(s *space) bool { return s.skills.has(string(id)) }
}

func resourceOf(id protocol.ResourceID) func(*space) bool {
	return func(s *space) bool { return s.resources.has(string(id)) }
}
