package app_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"mime/multipart"
	"net/http"
	"regexp"
	"strings"
	"testing"

	filesdoor "github.com/aibridge/aibridge/doors/files"
	"github.com/aibridge/aibridge/doors/files/transfer"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// nextStatus is the next thing a client hears about a transfer that is not a
// chunk; chunks are gathered.
func nextStatus(t *testing.T, r *bridgetest.Raw, chunks map[string][]byte) transfer.Status {
	t.Helper()
	for {
		p := r.Next(t)
		parts := strings.Split(p.Topic, "/")
		if parts[3] == "data" {
			if want := fmt.Sprintf("%08x", crc32.ChecksumIEEE(p.Payload)); parts[6] != want {
				t.Fatalf("a chunk on %s has the checksum %s", p.Topic, want)
			}
			chunks[parts[5]] = p.Payload
			continue
		}
		var s transfer.Status
		if err := json.Unmarshal(p.Payload, &s); err != nil {
			t.Fatalf("%s: %v", p.Payload, err)
		}
		return s
	}
}

// fetch gets a file over HTTP, from wherever in it.
func fetch(t *testing.T, n *bridgetest.Node, query string, header ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.HTTPURL("/vfs/download?"+query), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := bridgetest.HTTPClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestAFileThatCameInChunksIsFetchedOverHTTPAndInChunks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := h.key(protocol.KindAgent, "camera", protocol.RoleEndAgent)
	camera := h.connect("camera-client", key)
	camera.Listen(t, "aibridge/vfs/pictures/status/#", "aibridge/vfs/pictures/data/#")

	snapshot := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	sum := sha256.Sum256(snapshot)
	const chunk = 4096
	send := func(what string, payload []byte) {
		t.Helper()
		camera.Send(t, "aibridge/vfs/pictures/put/up/"+what, string(payload))
	}
	send("init", fmt.Appendf(nil, `{"path":"hall/1.jpg","size":%d,"checksum":%q,"chunk_size":%d}`, len(snapshot), hex.EncodeToString(sum[:]), chunk))
	if s := nextStatus(t, camera, nil); s.State != transfer.Receiving || s.Chunks != 4 {
		t.Fatalf("%+v %v", s, s.Error)
	}
	for _, i := range []int{3, 0, 2} {
		send(fmt.Sprintf("chunk/%d", i), snapshot[i*chunk:min((i+1)*chunk, len(snapshot))])
	}
	send("finish", nil)
	if s := nextStatus(t, camera, nil); s.State != transfer.Receiving || s.Error == nil || len(s.Missing) != 1 || s.Missing[0] != [2]int{1, 1} {
		t.Fatalf("a chunk is missing, told is %+v %v", s, s.Error)
	}
	// The connection breaks; the same device goes on where it was.
	camera.Drop()
	camera = h.connect("camera-client", key)
	camera.Listen(t, "aibridge/vfs/pictures/status/#", "aibridge/vfs/pictures/data/#")
	send("chunk/1", snapshot[chunk:2*chunk])
	send("finish", nil)
	s := nextStatus(t, camera, nil)
	for s.State == transfer.Storing {
		s = nextStatus(t, camera, nil)
	}
	if s.State != transfer.Done || s.File.Checksum != hex.EncodeToString(sum[:]) {
		t.Fatalf("%+v %v", s, s.Error)
	}

	status, body := fetch(t, h.Node, "group_name=pictures&path=hall/1.jpg", "X-API-Key", key)
	if status != http.StatusOK || body != string(snapshot) {
		t.Fatalf("over HTTP: %d, %d bytes", status, len(body))
	}
	if status, body = fetch(t, h.Node, "group_name=pictures&path=hall/1.jpg", "X-API-Key", key, "Range", "bytes=10-15"); status != http.StatusPartialContent || body != "abcdef" {
		t.Fatalf("a range over HTTP: %d %q", status, body)
	}
	chunks := make(map[string][]byte)
	camera.Send(t, "aibridge/vfs/pictures/get/down", `{"path":"hall/1.jpg","chunk_size":4096}`)
	if s := nextStatus(t, camera, chunks); s.State != transfer.Sending || s.File.Checksum != hex.EncodeToString(sum[:]) {
		t.Fatalf("%+v %v", s, s.Error)
	}
	if s := nextStatus(t, camera, chunks); s.State != transfer.Sent || s.Next != nil {
		t.Fatalf("%+v %v", s, s.Error)
	}
	var got []byte
	for i := range 4 {
		got = append(got, chunks[fmt.Sprint(i)]...)
	}
	if !bytes.Equal(got, snapshot) {
		t.Fatalf("%d bytes came in %d chunks", len(got), len(chunks))
	}
}

// Who has nothing to do with a group of files neither reads, nor writes, nor
// overhears it, over MQTT or HTTP. A principal of the same name in another
// space is somebody else.
func TestFilesOfOthersAreOutOfReach(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	owner := h.connect("owner-client", h.key(protocol.KindAgent, "camera", protocol.RoleEndAgent))
	owner.Listen(t, "aibridge/vfs/pictures/status/#", "aibridge/vfs/pictures/data/#")
	namesakeKey := h.key(protocol.KindAgent, "camera", protocol.RoleEndAgent, `,"space_id":"elsewhere"`)
	namesake := h.connect("namesake-client", namesakeKey)
	namesake.Listen(t, "aibridge/vfs/pictures/status/#", "aibridge/vfs/pictures/data/#")
	strangerKey := h.key(protocol.KindAgent, "stranger", protocol.RoleEndAgent)
	stranger := h.connect("stranger-client", strangerKey)

	owner.Send(t, "aibridge/vfs/pictures/put/up/init", `{"path":"f","size":6}`)
	owner.Send(t, "aibridge/vfs/pictures/put/up/chunk/0", "secret")
	owner.Send(t, "aibridge/vfs/pictures/put/up/finish", "")
	for state := transfer.Receiving; state != transfer.Done; {
		s := nextStatus(t, owner, nil)
		if s.Error != nil {
			t.Fatal(s.Error)
		}
		state = s.State
	}
	owner.Send(t, "aibridge/vfs/pictures/get/down", `{"path":"f"}`)
	for state := transfer.Sending; state != transfer.Sent; {
		state = nextStatus(t, owner, make(map[string][]byte)).State
	}

	for _, filter := range []string{"aibridge/vfs/pictures/put/#", "aibridge/vfs/pictures/#", "aibridge/vfs/+/data/#", "aibridge/vfs/#"} {
		if code := subscribe(t, stranger, filter); code < 0x80 {
			t.Errorf("a stranger may listen to %s", filter)
		}
	}
	stranger.Listen(t, "aibridge/vfs/pictures/status/#", "aibridge/vfs/pictures/data/#", "$share/g/aibridge/vfs/pictures/data/#") // of its own transfers
	if status, body := fetch(t, h.Node, "group_name=pictures&path=f", "X-API-Key", strangerKey); status != http.StatusNotFound || strings.Contains(body, "secret") {
		t.Errorf("a stranger's download: %d %s", status, body)
	}
	if status, body := fetch(t, h.Node, "group_name=pictures&path=f", "X-API-Key", namesakeKey); status != http.StatusNotFound {
		t.Errorf("the namesake's download: %d %s", status, body)
	}
	if status, body := fetch(t, h.Node, "group_name=pictures&path=f"); status != http.StatusUnauthorized {
		t.Errorf("nobody's download: %d %s", status, body)
	}
	if status, body := upload(t, h.Node, strangerKey, "pictures", "g", "mine now"); status != http.StatusForbidden {
		t.Errorf("a stranger's upload: %d %s", status, body)
	}
	// What the namesake asks for is its own, and all that it has heard.
	namesake.Send(t, "aibridge/vfs/pictures/get/mine", `{"path":"f"}`)
	if s := nextStatus(t, namesake, nil); s.ID != "mine" || s.Error == nil || s.Error.Code != protocol.FileNotFound {
		t.Errorf("the namesake heard %+v %v", s, s.Error)
	}
}

// TestNobodyLearnsWhatGroupsOfFilesOthersHave asks for somebody else's group and
// for one that nobody has written to, and compares the answers.
func TestNobodyLearnsWhatGroupsOfFilesOthersHave(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	camera, lamp := h.key(protocol.KindAgent, "camera", protocol.RoleEndAgent), h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	if status, body := upload(t, h.Node, camera, "pictures", "hall/f", "secret"); status != http.StatusOK {
		t.Fatal(body)
	}
	raw := h.connect("lamp-client", lamp)
	numbers := regexp.MustCompile(`\d{10,}`)
	answerTo := func(what, group string) (answer string) {
		switch command, params, _ := strings.Cut(what, " "); {
		case strings.HasPrefix(what, "GET "):
			status, body := ask(t, http.MethodGet, h.HTTPURL(fmt.Sprintf(params, group)), "X-API-Key", lamp)
			answer = fmt.Sprint(status, " ", string(body))
		case strings.HasPrefix(what, "MQTT "):
			code := subscribe(t, raw, "aibridge/vfs/"+group+"/status/#")
			raw.Send(t, "aibridge/vfs/"+group+"/get/t1", params)
			p := raw.Next(t)
			answer = fmt.Sprint(code, " ", p.Topic, " ", string(p.Payload))
		default:
			code, body := h.run(lamp, command, fmt.Sprintf(params, group))
			answer = fmt.Sprint(code, " ", body)
		}
		return numbers.ReplaceAllString(strings.ReplaceAll(answer, group, "GROUP"), "N")
	}
	for _, what := range []string{
		"GET /vfs/download?group_name=%s&path=hall/f", "GET /vfs/download?group_name=%s&path=hall/f&version=1", "GET /vfs/download?group_name=%s&file_id=x",
		"GET /vfs/chunks?group_name=%s&path=hall/f", "GET /vfs/list?group_name=%s&snapshot&revision", "GET /vfs/list?group_name=%s&path=hall&deleted=true",
		`vfs.list {"group_name":%q}`, `vfs.list {"group_name":%q,"path":"hall"}`, `vfs.sync {"group_name":%q}`, `vfs.sync.from {"group_name":%q,"path":"hall/f"}`,
		`MQTT {"path":"hall/f"}`,
	} {
		theirs, free := answerTo(what, "pictures"), answerTo(what, "nothing0")
		if theirs != free || strings.Contains(theirs, "secret") {
			t.Errorf("%s: of somebody else\n\t%s\nof nobody\n\t%s", what, theirs, free)
		}
	}
}

// TestTheFirstToWriteShutsNoOperatorOut has an end agent take a group of files,
// whose space has an operator.
func TestTheFirstToWriteShutsNoOperatorOut(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	camera := h.key(protocol.KindAgent, "camera", protocol.RoleEndAgent)
	operator := h.key(protocol.KindOperator, "olga", protocol.RoleOperator)
	foreign := h.key(protocol.KindOperator, "otto", protocol.RoleOperator, `,"space_id":"elsewhere"`)
	if status, body := upload(t, h.Node, camera, "reports", "f", "first"); status != http.StatusOK {
		t.Fatal(body)
	}
	if status, body := fetch(t, h.Node, "group_name=reports&path=f", "X-API-Key", operator); status != http.StatusOK || body != "first" {
		t.Errorf("the operator reads: %d %s", status, body)
	}
	if status, body := upload(t, h.Node, operator, "reports", "g", "second"); status != http.StatusOK {
		t.Errorf("the operator writes: %d %s", status, body)
	}
	if code, body := h.run(operator, "vfs.delete", `{"group_name":"reports","path":"f"}`); code != "" {
		t.Errorf("the operator deletes: %s", body)
	}
	if status, _ := fetch(t, h.Node, "group_name=reports&path=g", "X-API-Key", camera); status != http.StatusOK {
		t.Errorf("the agent lost its group: %d", status)
	}
	if status, _ := fetch(t, h.Node, "group_name=reports&path=g", "X-API-Key", foreign); status != http.StatusNotFound {
		t.Errorf("an operator of another space reads: %d", status)
	}
}

// TestTotalsOfFilesAreOfWhatOneMaySee asks how much there is.
func TestTotalsOfFilesAreOfWhatOneMaySee(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	camera, lamp := h.key(protocol.KindAgent, "camera", protocol.RoleEndAgent), h.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	operator := h.key(protocol.KindOperator, "olga", protocol.RoleOperator)
	for _, f := range []struct{ key, group, content string }{{camera, "pictures", strings.Repeat("x", 1000)}, {lamp, "notes", "ten bytes!"}} {
		if status, body := upload(t, h.Node, f.key, f.group, "f", f.content); status != http.StatusOK {
			t.Fatal(body)
		}
	}
	for name, test := range map[string]struct {
		key  string
		used int64
		room bool
	}{
		"who has written much":   {camera, 1000, false},
		"who has written little": {lamp, 10, false},
		"an operator":            {operator, 1010, true},
		"the administrator":      {h.admin, 1010, true},
	} {
		var status vfs.StatusResult
		if _, body := h.run(test.key, "vfs.status", `{}`); json.Unmarshal([]byte(body), &status) != nil || status.Used != test.used || (status.Total > 0) != test.room {
			t.Errorf("%s is told %s", name, body)
		}
		var health struct{ Details filesdoor.HealthDetails }
		if _, body := ask(t, http.MethodGet, h.HTTPURL("/vfs/health"), "X-API-Key", test.key); json.Unmarshal(body, &health) != nil || health.Details.UsedBytes != test.used || (health.Details.TotalBytes > 0) != test.room {
			t.Errorf("%s is told %s", name, body)
		}
	}
}

// upload sends a form, as docs/vfs.md#http shows it.
func upload(t *testing.T, n *bridgetest.Node, key, group, path, content string) (int, string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range map[string]string{"group_name": group, "path": path} {
		if err := form.WriteField(name, value); err != nil {
			t.Fatal(err)
		}
	}
	part, err := form.CreateFormFile("file", "f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	status, answer := post(t, n.HTTPURL("/vfs/upload"), body.String(), "X-API-Key", key, "Content-Type", form.FormDataContentType())
	return status, string(answer)
}
