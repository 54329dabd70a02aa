package app_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/remote"
)

// newGallery makes a plant whose files of the groups pictures and home:all follow, as far as
// there is room for so many bytes.
func newGallery(t *testing.T, room int64) *plant {
	return newPlantWith(t, func(j *site.Join) { j.Files, j.Caps = []string{"pictures", "home:*"}, []string{"home"} }, func(h *site.Have) { h.Files = room })
}

// filesAs are the files of a bridge as somebody has them over HTTP.
func filesAs(t *testing.T, h *house, key string) *remote.Client {
	t.Helper()
	c, err := remote.New(remote.Options{URL: h.HTTPURL("/vfs"), Credential: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// draws has somebody at the edge write a file.
func (p *plant) draws(group, path, content string) {
	p.t.Helper()
	if _, err := filesAs(p.t, p.edge, p.edge.admin).Put(p.t.Context(), group, path, strings.NewReader(content), vfs.PutOptions{Size: int64(len(content)), ContentType: "text/plain"}); err != nil {
		p.t.Fatal(err)
	}
}

// wipes has somebody at the edge delete a file.
func (p *plant) wipes(group, path string) {
	p.t.Helper()
	if _, err := filesAs(p.t, p.edge, p.edge.admin).Delete(p.t.Context(), group, path, 0); err != nil {
		p.t.Fatal(err)
	}
}

// history are the contents of the kept versions of a file at the centre, oldest first; - is
// a deletion.
func (p *plant) history(group, path string) string {
	p.t.Helper()
	_, body := p.centre.run(p.person, "vfs.versions", fmt.Sprintf(`{"group_name":%q,"path":%q}`, group, path))
	var found struct{ Versions []vfs.FileView }
	_ = json.Unmarshal([]byte(body), &found) // none, of a file that is not there
	words := make([]string, len(found.Versions))
	for i, v := range found.Versions {
		at := len(words) - 1 - i
		if words[at] = "-"; v.Deleted {
			continue
		}
		r, f, err := filesAs(p.t, p.centre, p.person).Open(p.t.Context(), group, path, v.Version)
		if err != nil {
			p.t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		_ = r.Close()
		if sum := vfs.Sum(sha256.Sum256(data)); err != nil || sum != f.SHA256 {
			p.t.Errorf("%s is damaged at the centre: %v", path, err)
		}
		words[at] = string(data)
	}
	return strings.Join(words, " ")
}

// historyBecomes waits for the versions of a file at the centre.
func (p *plant) historyBecomes(group, path, want string) {
	p.t.Helper()
	got := ""
	eventually.Holds(p.t, path+" has the versions "+want+" at the centre", func() bool { got = p.history(group, path); return got == want }, &got)
}

func TestFilesOfASiteFollow(t *testing.T) {
	t.Parallel()
	p := newGallery(t, 1<<20)
	p.lamp()
	p.edge.must("cap.declare", `{"cap_id":"home","cap_name":"At home","skill_id":"light"}`)
	p.edge.must("group.member.add", `{"cap_id":"home","group_id":"all","skill_id":"light","role":"lamp"}`)
	p.draws("pictures", "hall/plan.txt", "one")
	p.draws("pictures", "gone.txt", "leaves")
	p.draws("secret", "plan.txt", "hidden")
	p.draws("home:all", "note.txt", "of-a-Cap")
	p.historyBecomes("plant.pictures", "hall/plan.txt", "one")
	p.historyBecomes("plant.pictures", "gone.txt", "leaves")
	p.historyBecomes("plant.home:all", "note.txt", "of-a-Cap")
	there, _, err := filesAs(t, p.centre, p.person).List(t.Context(), "plant.pictures", "hall/", "", 1, false)
	here, _, failed := filesAs(t, p.edge, p.edge.admin).List(t.Context(), "pictures", "hall/", "", 1, false)
	if err != nil || failed != nil || len(there) != 1 || len(here) != 1 || there[0].Mtime != here[0].Modified.UnixMilli() || there[0].ContentType != "text/plain" {
		t.Errorf("%+v at the centre of %+v: %v %v", there, here, err, failed)
	}

	// While the line is down, and over a restart of the site.
	p.web.rests(true)
	p.draws("pictures", "hall/plan.txt", "two")
	p.wipes("pictures", "hall/plan.txt")
	p.draws("pictures", "hall/plan.txt", "three")
	p.draws("pictures", "hall/plan.txt", "one")
	p.wipes("pictures", "gone.txt")
	p.draws("pictures", "new.txt", "first")
	p.draws("pictures", "new.txt", "second")
	p.edge.Restart(t)
	if got := p.history("plant.pictures", "hall/plan.txt"); got != "one" {
		t.Errorf("over a line that is down came %s", got)
	}
	p.web.rests(false)
	p.historyBecomes("plant.pictures", "hall/plan.txt", "one two - three one")
	p.historyBecomes("plant.pictures", "gone.txt", "leaves -")
	p.historyBecomes("plant.pictures", "new.txt", "first second")
	p.wipes("pictures", "new.txt")
	p.draws("pictures", "new.txt", "second")
	p.historyBecomes("plant.pictures", "new.txt", "first second - second")

	// Nothing else is there, nor for others.
	if body := p.centre.must("vfs.group.list", `{}`); strings.Contains(body, "secret") || strings.Count(body, `"group_name"`) != 2 {
		t.Errorf("the groups at the centre are %s", body)
	}
	red := p.centre.key(protocol.KindOperator, "rob", "operator", `,"space_id":"red"`)
	if list, _, err := filesAs(t, p.centre, red).List(t.Context(), "plant.pictures", "", "", 0, true); err != nil || len(list) != 0 {
		t.Errorf("another tenant sees %+v, %v", list, err)
	}
	trail := ""
	eventually.Holds(t, "what the site has written is in the audit trail of the centre", func() bool {
		trail = p.centre.must("audit.query", `{"principal":"plant-bridge","event":"vfs.*","resource":"vfs/plant.pictures"}`)
		return strings.Contains(trail, `"vfs.sync.to"`) && strings.Contains(trail, `"vfs.delete"`)
	}, &trail)
}

// TestFilesOfASiteAreWrittenByItAlone and it writes no others.
func TestFilesOfASiteAreWrittenByItAlone(t *testing.T) {
	t.Parallel()
	p := newGallery(t, 1<<20)
	p.draws("pictures", "plan.txt", "one")
	p.historyBecomes("plant.pictures", "plan.txt", "one")
	put := func(key, group string) error {
		_, err := filesAs(t, p.centre, key).Put(t.Context(), group, "x.txt", strings.NewReader("x"), vfs.PutOptions{Size: 1})
		return err
	}
	if err := put(p.person, "drafts"); err != nil {
		t.Fatal(err)
	}
	stranger := p.centre.key(protocol.KindAgent, "stranger", "site")
	for name, c := range map[string]struct{ key, group string }{
		"an operator":               {p.person, "plant.pictures"},
		"an administrator":          {p.centre.admin, "plant.pictures"},
		"an operator, a new group":  {p.person, "plant.new"},
		"the site, another group":   {p.key, "drafts"},
		"the site, a new group":     {p.key, "other"},
		"a site that nobody knows":  {stranger, "stranger.pictures"},
		"the site, the Caps' files": {p.key, "cap"},
	} {
		if err := put(c.key, c.group); protocol.CodeOf(err) != protocol.VFSPermission {
			t.Errorf("%s writes: %v", name, err)
		}
	}
	for _, key := range []string{p.person, p.centre.admin} {
		if code, body := p.centre.run(key, "vfs.delete", `{"group_name":"plant.pictures","path":"plan.txt"}`); code != protocol.VFSPermission {
			t.Errorf("somebody deletes: %s %s", code, body)
		}
		if code, body := p.centre.run(key, "vfs.move", `{"group_name":"plant.pictures","path":"plan.txt","to_group_name":"drafts","to_path":"p"}`); code != protocol.VFSPermission {
			t.Errorf("somebody moves: %s %s", code, body)
		}
	}
	if code, body := p.centre.run(p.person, "vfs.copy", `{"group_name":"plant.pictures","path":"plan.txt","to_group_name":"drafts","to_path":"copy.txt"}`); code != "" {
		t.Errorf("an operator may not copy it: %s %s", code, body)
	}
	if list, _, err := filesAs(t, p.centre, p.key).List(t.Context(), "drafts", "", "", 0, true); err != nil || len(list) != 0 {
		t.Errorf("the site sees %+v of a group of others, %v", list, err)
	}
	if got := p.history("plant.pictures", "plan.txt"); got != "one" {
		t.Errorf("the file has the versions %s", got)
	}
}

// bytesOf are so many bytes that do not repeat.
func bytesOf(n int) []byte {
	data := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)})
	_, _ = r.Read(data)
	return data
}

// TestFilesFollowOverABadLine that delays and breaks off: a large one in parts, and small
// ones beside it.
func TestFilesFollowOverABadLine(t *testing.T) {
	t.Parallel()
	p := newGallery(t, 64<<20)
	p.web.piece, p.web.carries = 16<<10, 1536<<10
	p.web.isRough(true)
	film := bytesOf(5<<20 + 17)
	edge, centre := filesAs(t, p.edge, p.edge.admin), filesAs(t, p.centre, p.person)
	sum := vfs.Sum(sha256.Sum256(film))
	if _, err := edge.PutFile(t.Context(), "pictures", "film.bin", bytes.NewReader(film), vfs.PutOptions{Size: int64(len(film)), SHA256: &sum}); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		p.draws("pictures", fmt.Sprintf("small/%d", i), fmt.Sprint("picture ", i))
	}
	var got []vfs.File
	var err error
	eventually.Holds(t, "all files are at the centre", func() bool {
		got, _, err = centre.List(t.Context(), "plant.pictures", "", "", vfs.MaxLimit, false)
		return err == nil && len(got) == 31
	}, &err)
	want, _, err := edge.List(t.Context(), "pictures", "", "", vfs.MaxLimit, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if want[i].Path != got[i].Path || want[i].SHA256 != got[i].SHA256 || want[i].Size != got[i].Size {
			t.Errorf("%+v at the centre, %+v at the site", got[i], want[i])
		}
	}
	r, _, err := centre.Open(t.Context(), "plant.pictures", "film.bin", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if data, err := io.ReadAll(r); err != nil || !bytes.Equal(data, film) {
		t.Errorf("the film has %d bytes at the centre: %v", len(data), err)
	}
	if cuts := p.web.wasCut(); cuts < 1 { // after 3 MiB at the latest
		t.Errorf("the line broke %d times", cuts)
	}
	if got := p.history("plant.pictures", "film.bin"); strings.Count(got, string(film)) != 1 {
		t.Error("the film came more than once")
	}
}

// notShown is what the site says is not at the centre.
func (p *plant) notShown() string {
	p.t.Helper()
	var got struct {
		Centre struct {
			NotShown []string `json:"not_shown"`
		}
	}
	if err := json.Unmarshal([]byte(p.edge.must("bridge.status", `{}`)), &got); err != nil {
		p.t.Fatal(err)
	}
	return strings.Join(got.Centre.NotShown, "\n")
}

// refusals is the number of files that the centre had no room for.
func (p *plant) refusals() (n int) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.centre.HTTPURL("/metrics"), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("X-API-Key", p.centre.admin)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	_, rest, found := strings.Cut(string(text), "\naibridge_site_files_refused_total{site=\"plant\",space=\"default\"} ")
	if _, failed := fmt.Sscan(rest, &n); err != nil || found && failed != nil {
		p.t.Fatal(errors.Join(err, failed))
	}
	return n
}

// TestFilesWithoutRoomAreRefusedAtBothEnds once, until there may be room again; smaller ones
// follow meanwhile.
func TestFilesWithoutRoomAreRefusedAtBothEnds(t *testing.T) {
	t.Parallel()
	p := newGallery(t, 100_000)
	a, b := string(bytesOf(60_000)), string(bytesOf(70_000))
	p.draws("pictures", "a", a)
	p.historyBecomes("plant.pictures", "a", a)
	p.draws("pictures", "b", b)
	p.draws("pictures", "huge", string(bytesOf(3<<20)))
	saw := ""
	eventually.Holds(t, "the site says what is refused", func() bool {
		saw = p.notShown()
		return strings.Contains(saw, "files of plant.pictures: b and 1 more: 4005") && strings.Contains(saw, "the site plant is used up")
	}, &saw)
	refusals := p.refusals()
	if refusals == 0 {
		t.Error("the centre says nothing of it")
	}
	p.draws("pictures", "small", "fits")
	p.historyBecomes("plant.pictures", "small", "fits")
	p.draws("pictures", "small", "fits-too")
	p.historyBecomes("plant.pictures", "small", "fits fits-too")
	if again := p.refusals(); again != refusals {
		t.Errorf("what was refused is sent again and again: %d times", again)
	}
	p.wipes("pictures", "a") // its versions give way
	p.historyBecomes("plant.pictures", "b", b)
	p.wipes("pictures", "huge")
	eventually.Holds(t, "nothing is refused any more", func() bool { saw = p.notShown(); return !strings.Contains(saw, "files of") }, &saw)
}

// TestNoFilesFollowToACentreThatHasNoRoom as its settings say nothing of it.
func TestNoFilesFollowToACentreThatHasNoRoom(t *testing.T) {
	t.Parallel()
	p := newGallery(t, 0)
	p.draws("pictures", "plan.txt", "one")
	saw := ""
	eventually.Holds(t, "the site says that no files follow", func() bool {
		saw = p.notShown()
		return strings.Contains(saw, "files of plant.pictures: 4004") && strings.Contains(saw, "files_bytes")
	}, &saw)
	if body := p.centre.must("vfs.group.list", `{}`); strings.Contains(body, "plant") {
		t.Errorf("the groups at the centre are %s", body)
	}
}
