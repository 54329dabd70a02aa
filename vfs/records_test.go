package vfs_test

import (
	"bytes"
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/vfs"
)

// A field that is added to the record of a file survives every change of the
// file.
func TestUpdatesKeepTheOtherFields(t *testing.T) {
	w := open(t)
	w.put("a", "one")
	key, _ := w.record("a")
	recordstest.Survives(t, w.records, key, func() { w.put("a", "two") }, "Versions")
	recordstest.Survives(t, w.records, key, func() {
		if _, err := w.files.Delete(t.Context(), "g", "a", 0); err != nil {
			t.Fatal(err)
		}
	}, "Versions")
	recordstest.Survives(t, w.records, key, func() { w.put("a", "three") }, "Versions")
}

// record finds the record of a file, with its key.
func (w *world) record(path string) (string, *vfs.Record) {
	w.t.Helper()
	for key, r := range w.records.All() {
		if r.Path == path {
			return key, r
		}
	}
	w.t.Fatalf("there is no record of %s", path)
	return "", nil
}

// A bridge that knows nothing of shared chunks must not go on with them, but may
// with everything else.
func TestARecordSaysWhetherEarlierReleasesMayHaveIt(t *testing.T) {
	w := open(t)
	old := noise(1, 8*vfs.ChunkSize)
	fresh := bytes.Clone(old)
	fresh[0]++
	w.putBytes("f", old)
	if _, r := w.record("f"); r.Schema() != 1 {
		t.Errorf("a content in one piece needs schema %d", r.Schema())
	}
	w.putBytes("f", fresh)
	if _, r := w.record("f"); r.Schema() != 2 {
		t.Errorf("shared chunks need schema %d", r.Schema())
	}
}
