package vfs_test

import (
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
