package vfs

import (
	"bytes"
	"crypto/sha256"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/protocol"
)

// Whatever two versions are, the chunks they have in common and the others make
// the newer one, in whatever pieces it was read.
func TestKeptAndChangedChunksMakeTheNewVersion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const chunk = 8
		old := rapid.SliceOfN(rapid.ByteRange(0, 1), 0, 100).Draw(t, "old")
		fresh := rapid.SliceOfN(rapid.ByteRange(0, 1), 1, 100).Draw(t, "new")
		if rapid.Bool().Draw(t, "similar") {
			fresh = append(bytes.Clone(old), fresh...)
		}
		sums := func(data []byte) []Sum {
			h := ChunkHasher{Size: chunk}
			for len(data) > 0 {
				n := rapid.IntRange(1, len(data)).Draw(t, "piece")
				_, _ = h.Write(data[:n])
				data = data[n:]
			}
			return h.Sums()
		}
		newSums := sums(fresh)
		for i, sum := range newSums {
			if sum != sha256.Sum256(fresh[i*chunk:min((i+1)*chunk, len(fresh))]) {
				t.Fatalf("chunk %d has another sum", i)
			}
		}
		keep := Unchanged(sums(old), newSums)
		var changed []byte
		at := 0
		for _, r := range keep {
			changed = append(changed, fresh[at:r.First*chunk]...)
			at = min(int(r.Last+1)*chunk, len(fresh))
		}
		changed = append(changed, fresh[at:]...)
		whole, err := Changed(bytes.NewReader(old), int64(len(old)), chunk, keep, bytes.NewReader(changed), int64(len(fresh)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(whole); err != nil || !bytes.Equal(got, fresh) {
			t.Fatalf("%q instead of %q, %v", got, fresh, err)
		}
		if len(keep) > 0 {
			if again, err := ParseRuns(Delta{Keep: keep}.String()); err != nil || len(again) != len(keep) {
				t.Fatalf("%v, %v", again, err)
			}
		}
	})
}

func TestRunsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, text := range []string{"", "1", "-", "2-1", "0-1,1-2", "3-4,0-1", "0--1", "-1-2", "a-b", "0-99999999999999999999", "0-1,"} {
		if runs, err := ParseRuns(text); protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("%q is %v, %v", text, runs, err)
		}
	}
}

func FuzzRuns(f *testing.F) {
	f.Add("0-1,3-4", int64(100), int64(50))
	f.Add("0-0", int64(0), int64(0))
	f.Add("1099511627775-1099511627775", int64(1)<<62, int64(1)<<62)
	f.Fuzz(func(t *testing.T, text string, old, size int64) {
		runs, err := ParseRuns(text)
		if err != nil || old < 0 || size < 0 {
			return
		}
		if again, err := ParseRuns(Delta{Keep: runs}.String()); err != nil || len(again) != len(runs) {
			t.Fatalf("%v, %v", again, err)
		}
		if _, err := Changed(bytes.NewReader(nil), old, ChunkSize, runs, bytes.NewReader(nil), size); err == nil {
			for _, r := range runs {
				if r.Last*ChunkSize >= size || r.Last*ChunkSize >= old {
					t.Fatalf("%v of %d and %d bytes", runs, old, size)
				}
			}
		}
	})
}
