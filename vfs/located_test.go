package vfs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

// paths lists the files below a folder.
func paths(t *testing.T, at vfs.Located) string {
	t.Helper()
	var list []string
	if err := vfs.Walk(t.Context(), at, func(f vfs.File) error { list = append(list, f.Path); return nil }); err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " ")
}

func count(t *testing.T, blobs *vfstest.Blobs) (n int) {
	t.Helper()
	if err := blobs.All(t.Context(), func(string, time.Time) bool { n++; return true }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAFolderIsCopiedAndMovedBetweenGroupsWithoutItsBytes(t *testing.T) {
	blobs := vfstest.NewBlobs()
	w := open(t, func(o *vfs.StoreOptions) { o.Blobs = blobs })
	at := func(group, path string) vfs.Located { return vfs.Located{Files: w.files, Group: group, Path: path} }
	for i, path := range []string{"a/1", "a/b/2", "ab"} {
		o := vfs.PutOptions{Size: -1, ContentType: "text/x-test", Mtime: int64(i + 1)}
		if _, err := w.files.Put(t.Context(), "g", path, strings.NewReader(strings.Repeat(path, 40_000)), o); err != nil {
			t.Fatal(err)
		}
	}
	before := count(t, blobs)
	if n, err := vfs.Tree(t.Context(), vfs.CopyFile, at("g", "a"), at("other", "x/y"), vfs.PutOptions{}); n != 2 || err != nil {
		t.Fatalf("copied %d: %v", n, err)
	}
	if n, err := vfs.Tree(t.Context(), vfs.Move, at("g", "a"), at("g", "c"), vfs.PutOptions{}); n != 2 || err != nil {
		t.Fatalf("moved %d: %v", n, err)
	}
	if got := paths(t, at("g", "")) + " | " + paths(t, at("other", "")); got != "ab c/1 c/b/2 | x/y/1 x/y/b/2" {
		t.Errorf("there is %s", got)
	}
	if after := count(t, blobs); after != before {
		t.Errorf("%d contents have become %d", before, after)
	}
	if f, err := w.files.Stat(t.Context(), "other", "x/y/b/2"); err != nil || f.ContentType != "text/x-test" || f.Mtime != 2 {
		t.Errorf("the copy is %+v, %v", f, err)
	}
	for what, test := range map[string]struct{ from, to string }{"into itself": {"c", "c/d"}, "onto its parent": {"c/b", "c"}, "onto itself": {"c", "c"}} {
		if n, err := vfs.Tree(t.Context(), vfs.Move, at("g", test.from), at("g", test.to), vfs.PutOptions{}); n != 0 || protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
	if n, err := vfs.DeleteTree(t.Context(), at("g", "c")); n != 2 || err != nil || paths(t, at("g", "")) != "ab" {
		t.Errorf("deleted %d, %v: %s is left", n, err, paths(t, at("g", "")))
	}
}

// A file that is written while it is moved is at both places afterwards.
func TestAMoveDeletesOnlyWhatItHasCopied(t *testing.T) {
	w := open(t)
	from, to := vfs.Located{Files: w.files, Group: "g", Path: "a"}, vfs.Located{Files: &racing{Files: w.files, path: "a"}, Group: "g", Path: "b"}
	if _, err := w.files.Put(t.Context(), "g", "a", strings.NewReader("old"), vfs.PutOptions{Size: -1}); err != nil {
		t.Fatal(err)
	}
	if _, err := vfs.Move(t.Context(), from, to, vfs.PutOptions{}); protocol.CodeOf(err) != protocol.RevisionConflict {
		t.Fatalf("the move: %v", err)
	}
	if f, err := w.files.Stat(t.Context(), "g", "a"); err != nil || f.Size != int64(len("newer")) {
		t.Errorf("what was written meanwhile is %+v, %v", f, err)
	}
}

// racing are files of which one is written before any other is.
type racing struct {
	vfs.Files
	path string
}

// PutCopy implements [vfs.Copier].
func (r *racing) PutCopy(ctx context.Context, group, path string, from vfs.Source, o vfs.PutOptions) (vfs.File, error) {
	if _, err := r.Put(ctx, group, r.path, strings.NewReader("newer"), vfs.PutOptions{Size: -1}); err != nil {
		return vfs.File{}, err
	}
	return vfs.File{}, errors.ErrUnsupported
}

func TestAFolderWithTooManyFilesIsRefusedBeforeAnythingIsDone(t *testing.T) {
	w := open(t)
	var batch []vfs.Content
	for i := range vfs.MaxTree + 1 {
		batch = append(batch, vfs.Content{Path: fmt.Sprintf("many/%05d", i), PutOptions: vfs.PutOptions{Size: 0}})
		if len(batch) == vfs.MaxBatchFiles || i == vfs.MaxTree {
			if _, err := w.files.PutBatch(t.Context(), "g", batch); err != nil {
				t.Fatal(err)
			}
			batch = nil
		}
	}
	many := vfs.Located{Files: w.files, Group: "g", Path: "many"}
	if err := vfs.CheckTree(t.Context(), many); protocol.CodeOf(err) != protocol.PayloadTooLarge {
		t.Errorf("one too many: %v", err)
	}
	if _, err := w.files.Delete(t.Context(), "g", "many/00000", 0); err != nil {
		t.Fatal(err)
	}
	if err := vfs.CheckTree(t.Context(), many); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
	many.Path = "none"
	if err := vfs.CheckTree(t.Context(), many); protocol.CodeOf(err) != protocol.FileNotFound {
		t.Errorf("none: %v", err)
	}
}
