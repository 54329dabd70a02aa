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

// CheckFiles is called before somebody reads or writes files of a group. The error is 2003:
// the files of a site are written by the site alone, as far as there is room for them, and a
// site uses no others.
func (n Names) CheckFiles(who *protocol.Principal, group string, write bool) error {
	of, own := n.of(who.Home(), group), n.by(who)
	switch {
	case own == nil && of != nil && write:
		return protocol.Errorf(protocol.PermissionDenied, "files of groups that begin with %q are written by the site %q alone", of.Name+".", of.Name).With("site", of.Name)
	case own == nil && slices.Contains(who.Roles, RoleSite):
		return noSite(who)
	case own == nil:
		return nil
	case own != of:
		return protocol.Errorf(protocol.PermissionDenied, "the site %q uses groups of files that begin with %q only", own.Name, own.Name+".").With("site", own.Name)
	case own.Files == 0:
		return protocol.Errorf(protocol.PermissionDenied, "no files follow from the site %q: its files_bytes in sites.have are 0", own.Name).With("site", own.Name)
	}
	return nil
}

// Room is the room for the files of the site that a group belongs to, in bytes, and the
// site's name in words; "" of a group that is none's.
func (n Names) Room(space protocol.SpaceID, group string) (name string, bytes int64) {
	of := n.of(space, group)
	if of == nil {
		return "", 0
	}
	return roomOf + of.Name, of.Files
}

// roomOf begins the names of the rooms of sites.
const roomOf = "the site "

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
