package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime/multipart"
	"net/http"
	"net/url"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
)

// talkAboutFiles stores, fetches, lists and deletes a file by the paths and
// parameters of the document.
func talkAboutFiles(t *testing.T) {
	k := begin(t)
	id := k.upload("pictures", "hall/plan.txt", "21 degrees")
	query := "?" + url.Values{"group_name": {"pictures"}, "file_id": {id}}.Encode()
	if status, got := request(t, k.Node, http.MethodGet, "/vfs/download"+query, "", ""); status != http.StatusOK || string(got) != "21 degrees" {
		t.Errorf("download: %d %s", status, got)
	}
	_, listed := request(t, k.Node, http.MethodGet, "/vfs/list?group_name=pictures&path=hall", "", "")
	k.saysAll("list", listed, []string{`"success":true`, `"files":[{`, id})
	status, gone := request(t, k.Node, http.MethodDelete, "/vfs/delete"+query, "", "")
	if status != http.StatusOK {
		t.Errorf("delete: %d", status)
	}
	k.saysAll("delete", gone, []string{`"success":true`})
	if status, answer := request(t, k.Node, http.MethodGet, "/vfs/download"+query, "", ""); status != http.StatusNotFound || !bytes.Contains(answer, []byte(`"4003"`)) {
		t.Errorf("download of what was deleted: %d %s", status, answer)
	}

	_, health := request(t, k.Node, http.MethodGet, "/vfs/health", "", "")
	var got struct {
		Status, Version string
		Timestamp       int64
		Details         struct {
			Used        string `json:"storage_used"`
			Total       string `json:"storage_total"`
			Connections *int
		}
	}
	k.decode(health, &got)
	if got.Status != "healthy" || got.Version != "0.6.3" || got.Timestamp == 0 || got.Details.Used == "" || got.Details.Total == "" || got.Details.Connections == nil {
		t.Errorf("health: %s", health)
	}
}

// upload sends a form as the document has it and returns the id of the file.
func (k talk) upload(group, path, content string) string {
	k.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	_ = form.WriteField("group_name", group)
	_ = form.WriteField("path", path)
	part, err := form.CreateFormFile("file", "plan.txt")
	if err == nil {
		_, err = part.Write([]byte(content))
	}
	if err = errors.Join(err, form.Close()); err != nil {
		k.Fatal(err)
	}
	r, err := http.NewRequestWithContext(k.Context(), http.MethodPost, k.HTTPURL("/vfs/upload"), &body)
	if err != nil {
		k.Fatal(err)
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	response, err := bridgetest.HTTPClient(k.T).Do(r)
	if err != nil {
		k.Fatal(err)
	}
	defer response.Body.Close()
	var stored struct {
		Success bool
		ID      string `json:"file_id"`
	}
	if err := json.NewDecoder(response.Body).Decode(&stored); err != nil || !stored.Success || stored.ID == "" {
		k.Fatalf("upload: %d %+v, %v", response.StatusCode, stored, err)
	}
	return stored.ID
}

// talkToStrangers asks for files without a credential.
func talkToStrangers(t *testing.T) {
	k := begin(t, func(c *app.Config) { c.Dev = false })
	for _, r := range [][2]string{{http.MethodGet, "/vfs/health"}, {http.MethodPost, "/vfs/sync"}, {http.MethodGet, "/vfs/list?group_name=a"}} {
		if status, answer := request(t, k.Node, r[0], r[1], "{}", ""); status != http.StatusUnauthorized {
			t.Errorf("%v: %d %s", r, status, answer)
		}
	}
}

// talkAboutMirrors finds what is known of a Cap in the VFS, and brings it back.
func talkAboutMirrors(t *testing.T) {
	k := begin(t)
	k.does("cap.declare", `{"cap_id":"c","cap_name":"Channel","skill_id":"s"}`)
	for _, member := range []string{"a", "b"} {
		k.does("group.member.add", `{"group_id":"g","skill_id":"`+member+`","role":"sensor","cap_id":"c"}`)
	}
	k.does("group.link.add", `{"group_id":"g","source_skill_id":"a","target_skill_id":"b","link_type":"data_flow","cap_id":"c"}`)
	k.does("cap.vfs.sync", `{"cap_id":"c","vfs_path":"/vfs/cap/c/disk/notes.txt","sync_type":"REAL_TIME","content":"21 degrees"}`, `"sync_status":"`)
	for path, says := range map[string]string{"cap.json": `Channel`, "group.json": `sensor`, "links.json": `data_flow`, "disk/notes.txt": "21 degrees"} {
		download := "/vfs/download?" + url.Values{"group_name": {"cap"}, "path": {"c/" + path}}.Encode()
		eventually.Holds(t, path+" is in the VFS", func() bool {
			status, content := request(t, k.Node, http.MethodGet, download, "", "")
			return status == http.StatusOK && bytes.Contains(content, []byte(says))
		})
	}
	k.does("cap.vfs.sync.status", `{"cap_id":"c"}`, `"cap_id":"c"`, `"sync_status":"`)
	k.does("cap.vfs.recover", `{"cap_id":"c"}`, `"recovery_status":"`)
}
