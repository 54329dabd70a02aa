package remote

import (
	"bytes"
	"crypto/sha256"
	"io"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A changed file is made of what the VFS has and of the chunks it has not.
func TestChangedChunksAreEnough(t *testing.T) {
	server := serve(t)
	for _, inside := range []string{"", "site-1"} {
		c := dial(t, Options{URL: server.URL + "/vfs", Credential: key, Inside: inside})
		old := []byte(strings.Repeat("0123456789abcdef", 5*vfs.ChunkSize/16) + "the end")
		before, err := c.Put(t.Context(), "g", "large", bytes.NewReader(old), vfs.PutOptions{Size: int64(len(old))})
		if err != nil {
			t.Fatal(err)
		}
		sums, err := c.Chunks(t.Context(), "g", "large", before.Version)
		if err != nil || len(sums) != 6 || sums[0] != vfs.Sum(sha256.Sum256(old[:vfs.ChunkSize])) || sums[5] != vfs.Sum(sha256.Sum256([]byte("the end"))) {
			t.Fatalf("%d sums, %v", len(sums), err)
		}
		fresh := bytes.Clone(old)
		copy(fresh[2*vfs.ChunkSize:], "changed")
		fresh = append(fresh, " and more"...)
		hasher := new(vfs.ChunkHasher)
		_, _ = hasher.Write(fresh)
		delta := vfs.Delta{Base: before.Version, Keep: vfs.Unchanged(sums, hasher.Sums())}
		if delta.String() != "0-1,3-4" {
			t.Fatalf("keep %s", delta)
		}
		sum := vfs.Sum(sha256.Sum256(fresh))
		o := vfs.PutOptions{IfVersion: &before.Version, Size: int64(len(fresh)), SHA256: &sum}
		changed := append(bytes.Clone(fresh[2*vfs.ChunkSize:3*vfs.ChunkSize]), fresh[5*vfs.ChunkSize:]...)
		for what, send := range map[string]string{"less": string(changed[:100]), "more": string(changed) + "x", "something else": strings.ToUpper(string(changed))} {
			_, err := c.PutDelta(t.Context(), "g", "large", delta, strings.NewReader(send), o)
			code(t, what, err, protocol.SyncFailed)
		}
		after, err := c.PutDelta(t.Context(), "g", "large", delta, bytes.NewReader(changed), o)
		if err != nil || after.SHA256 != sum {
			t.Fatalf("%+v, %v", after, err)
		}
		r, _, err := c.Open(t.Context(), "g", "large", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, fresh) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		_, err = c.PutDelta(t.Context(), "g", "large", delta, bytes.NewReader(changed), o)
		code(t, "the version before", err, protocol.RevisionConflict)
		delta.Keep = []vfs.Run{{First: 0, Last: 1 << 30}}
		_, err = c.PutDelta(t.Context(), "g", "large", delta, bytes.NewReader(changed), vfs.PutOptions{Size: o.Size, SHA256: &sum})
		code(t, "chunks that nobody has", err, protocol.InvalidParameter)
		delta.Base = 7
		_, err = c.PutDelta(t.Context(), "g", "large", delta, bytes.NewReader(changed), vfs.PutOptions{Size: o.Size, SHA256: &sum})
		code(t, "a version that nobody has", err, protocol.FileNotFound)
	}
}
