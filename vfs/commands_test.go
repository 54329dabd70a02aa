package vfs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

func TestFilesAreListedAndDeletedByCommand(t *testing.T) {
	m := newMounts(t)
	by := &commands.Call{Principal: alice}
	files, err := m.For(t.Context(), alice, "notes", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a/1", "a/2", "b"} {
		if _, err := files.Put(t.Context(), "notes", path, strings.NewReader(path), vfs.PutOptions{Size: -1}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(who *protocol.Principal, limit int, snapshot string) (vfs.ListResult, error) {
		p := vfs.ListParams{Group: "notes", Snapshot: snapshot}
		p.Limit = limit
		return m.List(t.Context(), &commands.Call{Principal: who}, p)
	}
	first, err := list(alice, 2, "")
	if err != nil || len(first.Files) != 2 || first.Next == "" || first.Snapshot == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	gone, err := m.Delete(t.Context(), by, vfs.DeleteParams{Group: "notes", ID: first.Files[0].ID})
	if err != nil || gone.Path != "a/1" {
		t.Fatalf("%+v, %v", gone, err)
	}
	if now, err := list(alice, 10, ""); err != nil || len(now.Files) != 2 {
		t.Errorf("afterwards: %+v, %v", now, err)
	}
	if then, err := list(alice, 10, first.Snapshot); err != nil || len(then.Files) != 3 {
		t.Errorf("as it was: %+v, %v", then, err)
	}
	for name, test := range map[string]struct {
		who  *protocol.Principal
		p    vfs.DeleteParams
		want protocol.Code
	}{
		"neither id nor path": {alice, vfs.DeleteParams{Group: "notes"}, protocol.InvalidParameter},
		"id and path":         {alice, vfs.DeleteParams{Group: "notes", ID: "x", Path: "b"}, protocol.InvalidParameter},
		"no such id":          {alice, vfs.DeleteParams{Group: "notes", ID: first.Files[0].ID + "x"}, protocol.FileNotFound},
		"no such path":        {alice, vfs.DeleteParams{Group: "notes", Path: "nothing"}, protocol.FileNotFound},
		"another version":     {alice, vfs.DeleteParams{Group: "notes", Path: "b", Version: 1 << 40}, protocol.RevisionConflict},
		"of another":          {bob, vfs.DeleteParams{Group: "notes", Path: "b"}, protocol.VFSPermission},
	} {
		if _, err := m.Delete(t.Context(), &commands.Call{Principal: test.who}, test.p); protocol.CodeOf(err) != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	if got, err := list(bob, 10, ""); err == nil && len(got.Files) > 0 {
		t.Errorf("another reads the list: %+v", got)
	}
	if _, err := list(alice, 10, "99999999999999999999"); protocol.CodeOf(err) != protocol.InvalidParameter {
		t.Errorf("a snapshot beyond all numbers: %v", err)
	}
}

// fill writes files whose content is their path.
func (m *mounts) fill(t *testing.T, who *protocol.Principal, group string, paths ...string) {
	t.Helper()
	files, err := m.For(t.Context(), who, group, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if _, err := files.Put(t.Context(), group, path, strings.NewReader(path), vfs.PutOptions{Size: -1}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFolderIsBrowsedWithoutWhatIsBelow(t *testing.T) {
	m := newMounts(t)
	m.fill(t, alice, "notes", "a", "b/1", "b/2/x", "b-c", "b0", "c/1", "c/2", "d/e/f", "z")
	for _, x := range []struct{ path, want string }{
		{"", "[b c d] [a b-c b0 z]"}, {"b", "[b/2] [b/1]"}, {"d/", "[d/e] []"}, {"nothing", "[] []"},
	} {
		for limit := 1; limit <= 10; limit++ {
			var folders, files []string
			p := vfs.ListParams{Group: "notes", Path: x.path, Folders: true}
			p.Limit = limit
			for {
				found, err := m.List(t.Context(), &commands.Call{Principal: alice}, p)
				if err != nil || len(found.Files)+len(found.Folders) > limit {
					t.Fatalf("%q, %d a page: %+v, %v", x.path, limit, found, err)
				}
				folders = append(folders, found.Folders...)
				for _, f := range found.Files {
					files = append(files, f.Path)
				}
				if p.Cursor = found.Next; p.Cursor == "" {
					break
				}
			}
			if got := fmt.Sprint(folders, " ", files); got != x.want {
				t.Errorf("%q, %d a page, has %s, want %s", x.path, limit, got, x.want)
			}
		}
	}
	if found, err := m.List(t.Context(), &commands.Call{Principal: bob}, vfs.ListParams{Group: "notes", Folders: true}); err == nil && len(found.Files)+len(found.Folders) > 0 {
		t.Errorf("another browses it: %+v", found)
	}
	if _, err := m.List(t.Context(), &commands.Call{Principal: alice}, vfs.ListParams{Group: "notes", Folders: true, Snapshot: "1"}); protocol.CodeOf(err) != protocol.InvalidParameter {
		t.Errorf("as it was: %v", err)
	}
}

func TestGroupsOfFilesAreListedToThoseWhoMayRead(t *testing.T) {
	m := newMounts(t)
	m.fill(t, alice, "notes", "a", "bb")
	m.fill(t, bob, "songs", "long/name")
	if _, err := m.register(t, alice, aliceMounts); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		who  *protocol.Principal
		p    vfs.GroupListParams
		want string
	}{
		{alice, vfs.GroupListParams{}, "notes of alice in local: 2, 3 B; photos of alice in nas: 0, 0 B"},
		{bob, vfs.GroupListParams{Find: "SONG"}, "songs of bob in local: 1, 9 B"},
		{root, vfs.GroupListParams{Sort: "-bytes"}, "songs of bob in local: 1, 9 B; notes of alice in local: 2, 3 B; photos of alice in nas: 0, 0 B"},
		{eve, vfs.GroupListParams{}, ""},
	} {
		found, err := m.ListGroups(t.Context(), &commands.Call{Principal: x.who}, x.p)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range found.Groups {
			got = append(got, fmt.Sprintf("%s of %s in %s: %d, %d B", g.Name, g.Owner, g.VFS, g.Files, g.Bytes))
		}
		if strings.Join(got, "; ") != x.want {
			t.Errorf("%s lists %q, want %q", x.who.ID, got, x.want)
		}
	}
}

func TestAVersionIsBroughtBack(t *testing.T) {
	m := newMounts(t)
	by := &commands.Call{Principal: alice}
	files, err := m.For(t.Context(), alice, "notes", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second"} {
		if _, err := files.Put(t.Context(), "notes", "plan", strings.NewReader(text), vfs.PutOptions{Size: -1, ContentType: "text/plain"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Delete(t.Context(), by, vfs.DeleteParams{Group: "notes", Path: "plan"}); err != nil {
		t.Fatal(err)
	}
	kept, err := m.Versions(t.Context(), by, vfs.VersionsParams{Group: "notes", Path: "plan"})
	if err != nil || len(kept.Versions) != 3 || !kept.Versions[0].Deleted || kept.Versions[2].Size != 5 {
		t.Fatalf("%+v, %v", kept, err)
	}
	first := kept.Versions[2]
	other, none := uint64(7), uint64(0)
	for name, x := range map[string]struct {
		who  *protocol.Principal
		p    vfs.RestoreParams
		want protocol.Code
	}{
		"a deletion":      {alice, vfs.RestoreParams{Path: "plan", Version: kept.Versions[0].Version}, protocol.FileNotFound},
		"no such version": {alice, vfs.RestoreParams{Path: "plan", Version: 1}, protocol.FileNotFound},
		"no such file":    {alice, vfs.RestoreParams{Path: "other", Version: first.Version}, protocol.FileNotFound},
		"changed since":   {alice, vfs.RestoreParams{Path: "plan", Version: first.Version, Current: &other}, protocol.RevisionConflict},
		"of another":      {bob, vfs.RestoreParams{Path: "plan", Version: first.Version}, protocol.VFSPermission},
	} {
		x.p.Group = "notes"
		if _, err := m.Service.Restore(t.Context(), &commands.Call{Principal: x.who}, x.p); protocol.CodeOf(err) != x.want {
			t.Errorf("%s: %v, want %s", name, err, x.want)
		}
	}
	back, err := m.Service.Restore(t.Context(), by, vfs.RestoreParams{Group: "notes", Path: "plan", Version: first.Version, Current: &none})
	if err != nil || back.Checksum != first.Checksum || back.Version <= kept.Versions[0].Version || back.ContentType != "text/plain" || back.ID != first.ID {
		t.Fatalf("%+v, %v", back, err)
	}
	for _, who := range []*protocol.Principal{bob, eve} {
		if _, err := m.Versions(t.Context(), &commands.Call{Principal: who}, vfs.VersionsParams{Group: "notes", Path: "plan"}); protocol.CodeOf(err) != protocol.FileNotFound {
			t.Errorf("%s learns of its versions: %v", who.ID, err)
		}
	}
}
