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

// A file is made of another one's content by naming that.
func TestACopyIsMadeByName(t *testing.T) {
	server := serve(t)
	for _, inside := range []string{"", "site-1"} {
		c := dial(t, Options{URL: server.URL + "/vfs", Credential: key, Inside: inside})
		content := []byte(strings.Repeat("0123456789abcdef", 1<<14))
		before, err := c.Put(t.Context(), "g", "old", bytes.NewReader(content), vfs.PutOptions{Size: int64(len(content))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Delete(t.Context(), "g", "old", before.Version); err != nil {
			t.Fatal(err)
		}
		from := vfs.Source{Path: "old", Version: before.Version} // as long as versions are kept
		sum, none := vfs.Sum(sha256.Sum256(content)), uint64(0)
		o := vfs.PutOptions{IfVersion: &none, Size: int64(len(content)), SHA256: &sum}
		f, err := c.PutCopy(t.Context(), "g", "new", from, o)
		if err != nil || f.Path != "new" || f.SHA256 != sum {
			t.Fatalf("%+v, %v", f, err)
		}
		r, _, err := c.Open(t.Context(), "g", "new", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		other := vfs.Sum{1}
		for what, bad := range map[string]struct {
			from vfs.Source
			o    vfs.PutOptions
			code protocol.Code
		}{
			"a version that is not": {vfs.Source{Path: "old", Version: 7}, o, protocol.FileNotFound},
			"a file that is not":    {vfs.Source{Path: "none", Version: before.Version}, o, protocol.FileNotFound},
			"another checksum":      {from, vfs.PutOptions{Size: o.Size, SHA256: &other}, protocol.SyncFailed},
			"another size":          {from, vfs.PutOptions{Size: 5, SHA256: &sum}, protocol.SyncFailed},
			"a name that is there":  {from, o, protocol.RevisionConflict},
		} {
			_, err := c.PutCopy(t.Context(), "g", "new", bad.from, bad.o)
			code(t, what, err, bad.code)
		}
	}
}
