package app_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/remote"
)

// TestVersionsThatShareChunksAreRestored sends what changed of a large file,
// over HTTP. All its versions survive a restart, are in a backup, and come back
// from it, wherever contents are kept.
func TestVersionsThatShareChunksAreRestored(t *testing.T) {
	for _, store := range []string{"folder", "nats"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			n := bridgetest.Start(t, func(c *app.Config) { c.VFS.Store = store })
			content := make([]byte, 6*vfs.ChunkSize+9)
			_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
			contents := make(map[uint64][]byte)
			files := filesOf(t, n)
			f, err := files.Put(t.Context(), "papers", "large", bytes.NewReader(content), vfs.PutOptions{Size: -1})
			if err != nil {
				t.Fatal(err)
			}
			contents[f.Version] = content
			for i := range 3 {
				content = bytes.Clone(content)
				chunk := int64(2 * i)
				content[chunk*vfs.ChunkSize+5]++
				delta := vfs.Delta{Base: f.Version, Keep: []vfs.Run{{First: chunk + 1, Last: 6}}}
				if chunk > 0 {
					delta.Keep = append([]vfs.Run{{First: 0, Last: chunk - 1}}, delta.Keep...)
				}
				sum := vfs.Sum(sha256.Sum256(content))
				f, err = files.PutDelta(t.Context(), "papers", "large", delta, bytes.NewReader(content[chunk*vfs.ChunkSize:(chunk+1)*vfs.ChunkSize]),
					vfs.PutOptions{Size: int64(len(content)), SHA256: &sum})
				if err != nil {
					t.Fatal(err)
				}
				contents[f.Version] = content
			}
			n.Restart(t)
			checkVersions(t, filesOf(t, n), contents)
			status, archive := fetchBackup(t, n)
			if status != http.StatusOK {
				t.Fatalf("backup: %d", status)
			}
			checkVersions(t, filesOf(t, restored(t, n, archive)), contents)
		})
	}
}

// checkVersions reads every version of a file, and the sums of its chunks.
func checkVersions(t *testing.T, files *remote.Client, contents map[uint64][]byte) {
	t.Helper()
	for version, want := range contents {
		r, _, err := files.Open(t.Context(), "papers", "large", version)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("version %d has %d bytes instead of %d, %v", version, len(got), len(want), err)
		}
		_ = r.Close()
		sums, err := files.Chunks(t.Context(), "papers", "large", version)
		if err != nil || len(sums) != 7 || sums[4] != sha256.Sum256(want[4*vfs.ChunkSize:5*vfs.ChunkSize]) {
			t.Errorf("version %d has other chunks, %v", version, err)
		}
	}
}
