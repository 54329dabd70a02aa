package remote

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Files that come together are checked like those that come alone; a wrong one
// does not keep the others away.
func TestFilesThatComeTogetherAreChecked(t *testing.T) {
	const sum = "9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0" // of aaa
	size := int64(3)
	text := func(s string) *string { return &s }
	answer := []vfs.SyncedFile{
		{Path: "good", Status: vfs.Synced, ID: "i", Version: 1, Size: &size, Checksum: sum, Content: text("aaa")},
		{Path: "base64", Status: vfs.Synced, ID: "i", Version: 1, Size: &size, Checksum: sum, Content: text(base64.StdEncoding.EncodeToString([]byte("aaa"))), Encoding: "base64"},
		{Path: "content", Status: vfs.Synced, ID: "i", Version: 1, Size: &size, Checksum: sum, Content: text("aab")},
		{Path: "size", Status: vfs.Synced, ID: "i", Version: 1, Size: &size, Checksum: sum, Content: text("aaaa")},
		{Path: "other", Status: vfs.Synced, ID: "i", Version: 1, Size: &size, Checksum: sum, Content: text("aaa")},
		{Path: "none", Status: vfs.Synced, ID: "i", Version: 1, Size: &size, Checksum: sum},
		{Path: "coded", Status: vfs.Synced, ID: "i", Version: 1, Size: &size, Checksum: sum, Content: text("?"), Encoding: "base64"},
		{Path: "missing", Status: vfs.Missing, Error: &vfs.SyncedFileFail{Code: protocol.FileNotFound, Message: "no"}},
		{Path: "large", Status: vfs.TooLarge, ID: "i", Version: 1, Size: &size, Checksum: sum},
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Command string             `json:"command"`
			Params  vfs.SyncFromParams `json:"params"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.Command != "vfs.sync.from" {
			t.Errorf("%+v, %v", request, err)
		}
		asked++
		files := answer
		if len(request.Params.Files) == 1 { // what did not fit, again
			files = answer[len(answer)-1:]
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"result": vfs.SyncResult{Files: files}})
	}))
	defer server.Close()
	c := dial(t, Options{URL: server.URL})
	wholes, err := c.GetBatch(t.Context(), "g", strings.Fields("good base64 content size another none coded missing large"))
	if err != nil || asked != 2 {
		t.Fatalf("asked %d times, %v", asked, err)
	}
	for i, want := range []protocol.Code{"", "", protocol.SyncFailed, protocol.VFSUnavailable, protocol.VFSUnavailable, protocol.VFSUnavailable,
		protocol.VFSUnavailable, protocol.FileNotFound, protocol.PayloadTooLarge} {
		code(t, answer[i].Path, wholes[i].Err, want)
		if want == "" && string(wholes[i].Data) != "aaa" || want != "" && wholes[i].Data != nil {
			t.Errorf("%s: %q", answer[i].Path, wholes[i].Data)
		}
	}
}
