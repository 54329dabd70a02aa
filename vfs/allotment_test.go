package vfs_test

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// allotted gives the groups that begin with a. 1000 bytes together.
func allotted(o *vfs.StoreOptions) {
	o.Allot = func(space protocol.SpaceID, group string) (string, int64) {
		if space == protocol.DefaultSpace && strings.HasPrefix(group, "a.") {
			return "the site a", 1000
		}
		return "", 0
	}
}

func TestGroupsHaveRoomTogether(t *testing.T) {
	w := open(t, allotted)
	put := func(group, path string, bytes int) error {
		t.Helper()
		_, err := w.files.Put(t.Context(), group, path, strings.NewReader(strings.Repeat(path[:1], bytes)), vfs.PutOptions{Size: int64(bytes)})
		return err
	}
	is := func(used int64, refused uint64) {
		t.Helper()
		want := vfs.Allotment{Space: protocol.DefaultSpace, Name: "the site a", Bytes: 1000, Used: used, Refused: refused}
		if got := w.Store.Allotments(); len(got) != 1 || got[0] != want {
			t.Errorf("the room is %+v, want %+v", got, want)
		}
	}
	if got := w.Store.Allotments(); len(got) != 0 {
		t.Errorf("a room that nobody uses: %+v", got)
	}
	for group, bytes := range map[string]int{"a.x": 600, "a.y": 400, "b": 5000} {
		if err := put(group, "film", bytes); err != nil {
			t.Fatal(err)
		}
	}
	is(1000, 0)
	code(t, put("a.z", "one", 1), protocol.NoSpace)
	is(1000, 1)
	code(t, put("a.z", "large", 1001), protocol.NoSpace)
	is(1000, 2)
	if err := put("b", "more", 5000); err != nil {
		t.Errorf("another group is refused: %v", err)
	}

	// The versions before give way, also those of other groups of the room, and deleted files.
	if _, err := w.files.Delete(t.Context(), "a.x", "film", 0); err != nil {
		t.Fatal(err)
	}
	is(1000, 2)
	if err := put("a.z", "new", 500); err != nil {
		t.Fatal(err)
	}
	is(900, 2)
	if err := put("a.y", "other", 100); err != nil {
		t.Fatal(err)
	}
	is(1000, 2)
	if err := put("a.z", "new", 500); err != nil {
		t.Errorf("the same content: %v", err)
	}
	w.start(allotted) // it is counted anew
	is(1000, 0)
	code(t, put("a.z", "one", 1), protocol.NoSpace)
}

func TestAnUploadWithoutRoomDoesNotBegin(t *testing.T) {
	w := open(t, allotted)
	who := &protocol.Principal{Kind: protocol.KindAgent, ID: "a", Space: protocol.DefaultSpace}
	_, err := w.Store.BeginUpload(t.Context(), who, vfs.Resumable{Group: "a.x", Path: "film", Size: 1001})
	code(t, err, protocol.NoSpace)
	begun, err := w.Store.BeginUpload(t.Context(), who, vfs.Resumable{Group: "a.x", Path: "film", Size: 600})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Store.BeginUpload(t.Context(), who, vfs.Resumable{Group: "a.y", Path: "other", Size: 401})
	code(t, err, protocol.NoSpace)
	for _, size := range []int64{400, 600} { // the second one after the first upload was given up
		if _, err := w.Store.BeginUpload(t.Context(), who, vfs.Resumable{Group: "a.y", Path: "other", Size: size}); err != nil {
			t.Error(err)
		}
		_ = w.Store.AbortUpload(t.Context(), who, begun.ID)
	}
	if _, err := w.Store.BeginUpload(t.Context(), who, vfs.Resumable{Group: "b", Path: "film", Size: 1001}); err != nil {
		t.Error(err)
	}
}
