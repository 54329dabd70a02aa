package vfs

import (
	"context"
	"io"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// A Group is the record of a group of files: its owner.
type Group struct {
	Space protocol.SpaceID `json:"space"`
	Name  string           `json:"name"`
	Owner protocol.Party   `json:"owner"` // who wrote the first file
	Since int64            `json:"since"` // Unix ms
}

// KeptFor is the party whose budget of records the group uses.
func (g *Group) KeptFor() protocol.Party { return g.Owner }

func groupKey(space protocol.SpaceID, name string) string { return string(space) + "/" + name }

// privileged reports whether a principal may use files that are not its own.
func privileged(who *protocol.Principal) bool {
	return who.HasRole(protocol.RoleAdministrator) || who.HasRole(protocol.RoleAnonymous)
}

// capGroup takes apart the name of the files of a Cap's group, CAP:GROUP.
func capGroup(name string) (id protocol.CapID, group protocol.GroupID, ok bool) {
	before, after, ok := strings.Cut(name, ":")
	return protocol.CapID(before), protocol.GroupID(after), ok && before != "" && after != ""
}

// MayUseFiles reports whether a principal may read or write the files of a
// group. It is called for every message, so it must be fast.
//
//   - The files of a Cap's group (CAP:GROUP) are for its participants.
//   - The mirror ("cap") is read by those who take part in the Cap whose folder
//     it is, and they write below its disk; the rest the bridge writes.
//   - Any other group belongs to the principal that wrote its first file, and
//     is shared with those who take part in a group of the same name in a Cap
//     of that principal, and with those who manage the space: to be the first
//     shuts no operator out. A group without files is free.
//
// A name may be reserved besides, to write or to read (see [Options.MayName]).
func (s *Service) MayUseFiles(who *protocol.Principal, group string, write bool) bool {
	if s.mayName(who, group, write) != nil {
		return false
	}
	if group == MirrorGroup {
		return true // folder by folder
	}
	if privileged(who) {
		return true
	}
	if id, inner, ok := capGroup(group); ok {
		return s.opts.Members.MayUseGroup(who, id, inner, write)
	}
	g, _, ok := s.opts.Groups.Get(groupKey(who.Home(), group))
	if !ok || who.Manages(who.Home()) {
		return true
	}
	return g.Owner.Is(who) || s.opts.Members.SharesGroup(who, g.Owner, protocol.GroupID(group), write)
}

// mayName refuses a principal that may not use a group because of the group's name.
func (s *Service) mayName(who *protocol.Principal, group string, write bool) error {
	if s.opts.MayName == nil {
		return nil
	}
	return s.opts.MayName(who, group, write)
}

// nowhere is a space without principals: no space has this name. Its groups look as if no
// file was ever written to them.
const nowhere protocol.SpaceID = "\x00"

// hidden reports whether a group belongs to another principal and is not shared
// with this one, which then sees an empty group and learns nothing of its files.
func (s *Service) hidden(who *protocol.Principal, group string) bool {
	_, _, ofCap := capGroup(group)
	return !ofCap && !s.MayUseFiles(who, group, false)
}

// admit refuses with 4004 a principal that may not use a group. The first to write to a
// group becomes its owner.
func (s *Service) admit(ctx context.Context, who *protocol.Principal, group string, write bool) error {
	if err := s.mayName(who, group, write); err != nil {
		return protocol.Wrap(protocol.VFSPermission, err, protocol.AsError(err).Message).With("group_name", group)
	}
	if write && !privileged(who) && s.ownable(who, group) {
		err := s.claim(ctx, who, group)
		if err != nil && protocol.CodeOf(err) != protocol.AlreadyExists {
			return err
		}
	}
	if s.MayUseFiles(who, group, write) {
		return nil
	}
	verb := "read"
	if write {
		verb = "write"
	}
	return protocol.Errorf(protocol.VFSPermission, "you may not %s files of group %q", verb, group).With("group_name", group)
}

// ownable reports whether a group is free.
func (s *Service) ownable(who *protocol.Principal, group string) bool {
	if _, _, ok := capGroup(group); ok || group == MirrorGroup {
		return false
	}
	_, _, there := s.opts.Groups.Get(groupKey(who.Home(), group))
	return !there
}

func (s *Service) claim(ctx context.Context, who *protocol.Principal, group string) error {
	space := who.Home()
	_, err := s.opts.Groups.Create(ctx, groupKey(space, group),
		&Group{Space: space, Name: group, Owner: who.Party(), Since: s.opts.Now().UnixMilli()})
	return err
}

// A mirrorReader shows a principal the folders of the Caps it takes part in,
// and lets it write below their disks.
type mirrorReader struct {
	Files
	service *Service
	who     *protocol.Principal
}

// may refuses a path in a folder that is not the principal's to see, as one
// that is not there.
func (m *mirrorReader) may(path string) error {
	if privileged(m.who) {
		return nil
	}
	folder, _, ok := strings.Cut(path, "/")
	if !ok || !m.service.opts.Members.MayUseChannel(m.who, capOfFolder(folder), false) {
		return NoFile(MirrorGroup, path)
	}
	return nil
}

// mayWrite refuses a path that is not on the disk of a Cap on which the
// principal may write.
func (m *mirrorReader) mayWrite(path string) error {
	folder, rest, _ := strings.Cut(path, "/")
	if !strings.HasPrefix(rest, mirrorDisk+"/") {
		return protocol.Errorf(protocol.VFSPermission, "in the mirror only files below CAP_ID/%s can be written; another bridge's mirror needs a remote_group of its own", mirrorDisk).
			With("group_name", MirrorGroup)
	}
	if !privileged(m.who) && !m.service.opts.Members.MayUseChannel(m.who, capOfFolder(folder), true) {
		return protocol.Errorf(protocol.VFSPermission, "you may not write files of this Cap").With("group_name", MirrorGroup)
	}
	return nil
}

// mirrorDisk is the folder in a Cap's folder whose files are not the bridge's.
const mirrorDisk = "disk"

// Put implements [Files].
func (m *mirrorReader) Put(ctx context.Context, group, path string, r io.Reader, o PutOptions) (File, error) {
	if err := m.mayWrite(path); err != nil {
		return File{}, err
	}
	return m.Files.Put(ctx, group, path, r, o)
}

// PutBatch implements [Batcher].
func (m *mirrorReader) PutBatch(ctx context.Context, group string, batch []Content) ([]Result, error) {
	for i := range batch {
		if err := m.mayWrite(batch[i].Path); err != nil {
			return nil, err
		}
	}
	return PutAll(ctx, m.Files, group, batch)
}

// Delete implements [Files].
func (m *mirrorReader) Delete(ctx context.Context, group, path string, ifVersion uint64) (File, error) {
	if err := m.mayWrite(path); err != nil {
		return File{}, err
	}
	return m.Files.Delete(ctx, group, path, ifVersion)
}

// capOfFolder is the Cap whose folder has a name, "" if it cannot be told.
func capOfFolder(folder string) protocol.CapID {
	if !strings.Contains(folder, "%") {
		return protocol.CapID(folder)
	}
	id, ok := unescape(folder)
	if !ok || MirrorFolder(protocol.CapID(id)) != folder {
		return ""
	}
	return protocol.CapID(id)
}

// Stat implements [Files].
func (m *mirrorReader) Stat(ctx context.Context, group, path string) (File, error) {
	if err := m.may(path); err != nil {
		return File{}, err
	}
	return m.Files.Stat(ctx, group, path)
}

// Open implements [Files].
func (m *mirrorReader) Open(ctx context.Context, group, path string, version uint64) (io.ReadSeekCloser, File, error) {
	if err := m.may(path); err != nil {
		return nil, File{}, err
	}
	return m.Files.Open(ctx, group, path, version)
}

// List implements [Files]. The prefix must begin with a folder.
func (m *mirrorReader) List(ctx context.Context, group, prefix, cursor string, limit int, deleted bool) ([]File, string, error) {
	if m.may(prefix) != nil {
		return nil, "", protocol.Errorf(protocol.VFSPermission, "list the folder of a Cap that you take part in, as path CAP_ID").
			With("group_name", group)
	}
	return m.Files.List(ctx, group, prefix, cursor, limit, deleted)
}
