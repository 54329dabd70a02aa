package cap

import (
	"bytes"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// Whatever the files of a Cap hold, they are understood or refused with 4002.
// What was understood is rendered in a way that is understood as the same.
func FuzzReadPicture(f *testing.F) {
	seed := [...][]byte{
		[]byte(`{"schema":"aibridge/cap/1","cap_id":"home","space_id":"default","skill_id":"lamp","owner":"o","cap_name":"Home","cap_type":"generic","max_members":100,"data_storage_type":"json","link_type":"bidirectional","disk_path":"","sync_enabled":true,"sync_interval":60,"sync_type":"REAL_TIME","sync_conflict":"remote_wins","status":"active","declared_at":1,"updated_at":1}`),
		[]byte(`{"schema":"aibridge/groups/1","cap_id":"home","groups":[{"group_id":"hall","members":[{"skill_id":"lamp","role":"light","joined_at":1}],"data":[{"data_key":"k","data_type":"number","data_value":80,"updated_at":1,"updated_by":"o"}],"born_at":1}]}`),
		[]byte(`{"schema":"aibridge/links/1","cap_id":"home","links":[{"group_id":"hall","source_skill_id":"lamp","target_skill_id":"lamp","link_type":"x"}]}`),
	}
	if _, err := ReadSnapshot("s", "home", map[string][]byte{CapFile: seed[0], GroupsFile: seed[1], LinksFile: seed[2]}); err != nil {
		f.Fatal(err, protocol.AsError(err).Details)
	}
	f.Add(seed[0], seed[1], seed[2])
	f.Add([]byte(`{}`), []byte(`null`), []byte(`[]`))
	f.Add([]byte(`{"schema":"aibridge/cap/1","cap_id":"home","max_members":-1}`), []byte(``), []byte(`{"schema":"aibridge/links/1","cap_id":"other"}`))
	f.Fuzz(func(t *testing.T, c, groups, links []byte) {
		p, err := ReadSnapshot("s", "home", map[string][]byte{CapFile: c, GroupsFile: groups, LinksFile: links})
		if err != nil {
			if protocol.CodeOf(err) != protocol.SyncFailed {
				t.Fatal(err)
			}
			return
		}
		if p.Cap.Space != "s" || p.Cap.ID != "home" {
			t.Fatalf("Cap %q of space %q", p.Cap.ID, p.Cap.Space)
		}
		files := p.Files()
		again, err := ReadSnapshot("s", "home", files)
		if err != nil {
			t.Fatalf("%v\n%s\n%s\n%s", err, files[CapFile], files[GroupsFile], files[LinksFile])
		}
		for name, content := range again.Files() {
			if !bytes.Equal(content, files[name]) {
				t.Fatalf("%s was\n%s, is\n%s", name, files[name], content)
			}
		}
	})
}
