package site

import (
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// Names holds the names of a bridge's sites: ids that begin with one, in its space,
// are registered by the site alone, and a site registers no others.
type Names []Have

// Check is called before an agent or a skill is registered. The error is 2003.
func (n Names) Check(space protocol.SpaceID, id string, who *protocol.Principal) error {
	of, own := n.of(space, id), n.by(who)
	switch {
	case of != nil && of == own:
		return nil
	case of != nil:
		return protocol.Errorf(protocol.PermissionDenied, "names that begin with %q are those of the site %q", of.Name+".", of.Name).With("site", of.Name)
	case own != nil:
		return protocol.Errorf(protocol.PermissionDenied, "the site %q registers names that begin with %q only", own.Name, own.Name+".").With("site", own.Name)
	case slices.Contains(who.Roles, RoleSite):
		return noSite(who)
	}
	return nil
}

// CheckSite is called before somebody names a thing that only a site has, for the site. The
// error is 2003: nobody is taken for a site that is none, by whatever rights.
func (n Names) CheckSite(space protocol.SpaceID, name string, who *protocol.Principal) error {
	if err := n.Check(space, name, who); err != nil {
		return err
	}
	if n.by(who) == nil {
		return noSite(who)
	}
	return nil
}

func noSite(who *protocol.Principal) error {
	return protocol.Errorf(protocol.PermissionDenied, "%q is none of the sites of this bridge: sites.have names them", who.ID)
}

// CheckSkill is called before a Cap is declared for a skill, and before a skill joins a
// group. The error is 2003: a site has Caps and groups of its own skills alone.
func (n Names) CheckSkill(space protocol.SpaceID, id protocol.SkillID, who *protocol.Principal) error {
	if own := n.by(who); own == nil || own == n.of(space, string(id)) {
		return nil
	}
	return n.Check(space, string(id), who)
}

// TellsCaller reports whether an agent is of a site that is told its callers.
func (n Names) TellsCaller(space protocol.SpaceID, id protocol.AgentID) bool {
	of := n.of(space, string(id))
	return of != nil && of.Callers
}

// of is the site that a name belongs to, nil of none.
func (n Names) of(space protocol.SpaceID, id string) *Have {
	name, _, dotted := strings.Cut(id, ".")
	if !dotted {
		return nil
	}
	for i := range n {
		if n[i].Name == name && n[i].home() == space {
			return &n[i]
		}
	}
	return nil
}

// by is the site of a principal, by its key; nil if it is none.
func (n Names) by(who *protocol.Principal) *Have {
	for i := range n {
		if party := who.Party(); party == n[i].party() {
			return &n[i]
		}
	}
	return nil
}
