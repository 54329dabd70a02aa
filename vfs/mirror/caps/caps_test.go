package caps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var (
	owner    = &protocol.Principal{ID: "owner"}
	reader   = &protocol.Principal{ID: "reader"}
	stranger = &protocol.Principal{ID: "stranger"}
)

// A house has Caps, a VFS that can be made to fail, and a service between them.
type house struct {
	*Service
	t      *testing.T
	dir    string
	memory *vfstest.Memory
	kept   vfs.Files // what is behind vfs
	vfs    *vfstest.Faulty

	mu       sync.Mutex
	caps     map[protocol.CapID]map[string][]byte
	set      Settings
	events   []string
	stop     context.CancelFunc
	change   func(*Options)
	patience time.Duration // of until; a minute at least
	done     chan struct{}
}

func newHouse(t *testing.T, change ...func(*Options)) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), memory: vfstest.NewMemory(), caps: make(map[protocol.CapID]map[string][]byte),
		set: Settings{Enabled: true, RealTime: true, Interval: 100 * time.Millisecond, Rule: mirror.RemoteWins}}
	h.kept, h.vfs = h.memory, vfstest.NewFaulty(h.memory)
	h.change = func(o *Options) {
		for _, f := range change {
			f(o)
		}
	}
	h.start()
	t.Cleanup(h.end)
	return h
}

func (h *house) start() {
	o := Options{Dir: h.dir, Channels: h, Origin: "here", Poll: 50 * time.Millisecond,
		Files: func(protocol.SpaceID) vfs.Files { return h.vfs },
		Publish: func(_ protocol.SpaceID, id protocol.CapID, event string, _ any) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.events = append(h.events, string(id)+" "+event)
		}}
	if h.change != nil {
		h.change(&o)
	}
	h.Service = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	h.stop, h.done = cancel, make(chan struct{})
	started := make(chan struct{})
	go func() {
		defer close(h.done)
		_ = h.Run(ctx, func(yield func(protocol.SpaceID, protocol.CapID) bool) {
			defer close(started)
			h.mu.Lock()
			var ids []protocol.CapID
			for id := range h.caps {
				ids = append(ids, id)
			}
			h.mu.Unlock()
			for _, id := range ids {
				if !yield(protocol.DefaultSpace, id) {
					return
				}
			}
		})
	}()
	<-started
}

func (h *house) end() {
	h.stop()
	<-h.done
}

func (h *house) declare(id protocol.CapID, text string) {
	h.mu.Lock()
	h.caps[id] = map[string][]byte{"cap.json": []byte(text), "group.json": []byte(`{"groups":[]}`), "links.json": []byte(`{"links":[]}`)}
	h.mu.Unlock()
	h.Changed(protocol.DefaultSpace, id)
}

func (h *house) remove(id protocol.CapID) {
	h.mu.Lock()
	delete(h.caps, id)
	h.mu.Unlock()
	h.Changed(protocol.DefaultSpace, id)
}

// Settings implements [Channels], and so do those that follow.
func (h *house) Settings(_ protocol.SpaceID, id protocol.CapID) (Settings, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.caps[id]
	return h.set, ok
}

func (h *house) Documents(_ protocol.SpaceID, id protocol.CapID) (map[string][]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	files, ok := h.caps[id]
	return files, ok
}

func (h *house) May(who *protocol.Principal, id protocol.CapID) (exists, read, write bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, exists = h.caps[id]
	return exists, who.ID != stranger.ID, who.ID == owner.ID
}

func (h *house) MayRestore(who *protocol.Principal, _ protocol.CapID, _ map[string][]byte) error {
	if who.ID != owner.ID {
		return protocol.Errorf(protocol.PermissionDenied, "not yours")
	}
	return nil
}

func (h *house) Check(_ protocol.SpaceID, _ protocol.CapID, documents map[string][]byte) error {
	if !strings.HasPrefix(string(documents["cap.json"]), "{") {
		return protocol.Errorf(protocol.SyncFailed, "cap.json makes no sense")
	}
	return nil
}

func (h *house) Restore(_ context.Context, _ protocol.SpaceID, id protocol.CapID, documents map[string][]byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.caps[id] = documents
	return nil
}

func call(who *protocol.Principal) *commands.Call { return &commands.Call{Principal: who} }

// until polls for something that takes its time.
func (h *house) until(what string, condition func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(max(eventually.Patience, h.patience)); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			st, err := h.Status(h.t.Context(), call(owner), StatusParams{Cap: "home"})
			h.t.Fatalf("never: %s (%+v, %v)", what, st, err)
		}
	}
}

func (h *house) synced() {
	h.t.Helper()
	h.until("synced", func() bool {
		st, err := h.Status(h.t.Context(), call(owner), StatusParams{Cap: "home"})
		return err == nil && st.Status == "synced"
	})
}

func (h *house) there(path string) string {
	h.t.Helper()
	r, _, err := h.kept.Open(h.t.Context(), vfs.MirrorGroup, path, 0)
	if err != nil {
		return ""
	}
	defer r.Close()
	var text strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		text.Write(buf[:n])
		if err != nil {
			return text.String()
		}
	}
}

func (h *house) write(path, content string) (SyncResult, error) {
	return h.Sync(h.t.Context(), call(owner), SyncParams{Cap: "home", Path: "/vfs/cap/home/" + path, Content: &content})
}

func (h *house) heard(event string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e == event {
			return true
		}
	}
	return false
}

func TestWhatIsKnownOfACapIsInTheVFSAtOnce(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{"name":"Home"}`)
	h.until("cap.json is there", func() bool { return h.there("home/cap.json") == `{"name":"Home"}` && h.there("home/links.json") != "" })
	h.declare("home", `{"name":"New home"}`)
	h.until("the change is there", func() bool { return h.there("home/cap.json") == `{"name":"New home"}` })
	// Who changes the bridge's own files in the VFS is overruled.
	if _, err := h.memory.Put(t.Context(), vfs.MirrorGroup, "home/cap.json", strings.NewReader(`{"name":"Mine"}`), vfs.PutOptions{Size: -1}); err != nil {
		t.Fatal(err)
	}
	h.until("it is overruled", func() bool { return h.there("home/cap.json") == `{"name":"New home"}` })
	h.until("members are told", func() bool { return h.heard("home cap.vfs.synced") })
}

func TestFilesOfACapAreWrittenOneByOne(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{}`)
	h.synced()
	r, err := h.write("disk/plan.txt", "21 degrees")
	if err != nil || r.Status != "synced" || len(r.Checksum) != 64 || h.there("home/disk/plan.txt") != "21 degrees" {
		t.Fatalf("%+v, %v, there %q", r, err, h.there("home/disk/plan.txt"))
	}
	if r, err = h.Sync(t.Context(), call(owner), SyncParams{Cap: "home", Path: "/vfs/cap/home/", Type: "SCHEDULED"}); err != nil || r.Status != "pending" {
		t.Errorf("scheduled: %+v, %v", r, err)
	}
	if r, err = h.Sync(t.Context(), call(owner), SyncParams{Cap: "home", Path: "/vfs/cap/home"}); err != nil || r.Status != "synced" {
		t.Errorf("everything: %+v, %v", r, err)
	}
	text := "x"
	for what, c := range map[string]struct {
		who     *protocol.Principal
		cap     protocol.CapID
		path    string
		content *string
		code    protocol.Code
	}{
		"a stranger":              {stranger, "home", "/vfs/cap/home/disk/f", &text, protocol.VFSPermission},
		"who may only read":       {reader, "home", "/vfs/cap/home/disk/f", &text, protocol.VFSPermission},
		"no such Cap":             {owner, "none", "/vfs/cap/none/disk/f", &text, protocol.NotFound},
		"another Cap's path":      {owner, "home", "/vfs/cap/homes/disk/f", &text, protocol.InvalidParameter},
		"a way out":               {owner, "home", "/vfs/cap/home/disk/../../x", &text, protocol.InvalidParameter},
		"an absolute path":        {owner, "home", "/etc/passwd", &text, protocol.InvalidParameter},
		"NUL":                     {owner, "home", "/vfs/cap/home/disk/a\x00b", &text, protocol.InvalidParameter},
		"a device":                {owner, "home", "/vfs/cap/home/disk/NUL", &text, protocol.InvalidParameter},
		"the mirror's own":        {owner, "home", "/vfs/cap/home/.aibridge-sync/journal", &text, protocol.InvalidParameter},
		"beside the disk":         {owner, "home", "/vfs/cap/home/other", &text, protocol.InvalidParameter},
		"content for a folder":    {owner, "home", "/vfs/cap/home/disk/", &text, protocol.InvalidParameter},
		"a document, not JSON":    {owner, "home", "/vfs/cap/home/cap.json", &text, protocol.InvalidParameter},
		"a file that is not":      {owner, "home", "/vfs/cap/home/disk/none", nil, protocol.FileNotFound},
		"a file that is a folder": {owner, "home", "/vfs/cap/home/disk/plan.txt/f", &text, ""},
	} {
		_, err := h.Sync(t.Context(), call(c.who), SyncParams{Cap: c.cap, Path: c.path, Content: c.content})
		if c.code == "" && err == nil || c.code != "" && protocol.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", what, err, c.code)
		}
	}
	if _, err := h.Status(t.Context(), call(stranger), StatusParams{Cap: "home"}); protocol.CodeOf(err) != protocol.VFSPermission {
		t.Errorf("status for a stranger: %v", err)
	}
	page, err := h.Status(t.Context(), call(reader), StatusParams{Cap: "home", Limit: 2})
	if err != nil || len(page.Files) != 2 || page.NextCursor == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	rest, err := h.Status(t.Context(), call(reader), StatusParams{Cap: "home", Cursor: page.NextCursor})
	if err != nil || len(rest.Files) != 2 || rest.Files[0].Path <= page.Files[1].Path {
		t.Fatalf("%+v, %v", rest, err)
	}
}

// Whatever is wrong with the VFS, writes are answered soon and get there in the
// end, also over a restart of the bridge.
func TestAFailingVFSIsCaughtUpWith(t *testing.T) {
	for name, fault := range map[string]vfstest.Fault{
		"nobody answers": vfstest.Outage, "hangs": vfstest.Hang, "breaks off": vfstest.Cut,
		"is full": vfstest.Full, "does not permit it": vfstest.Denied, "forgets to answer": vfstest.Forgets, "is slow": vfstest.Slow,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.declare("home", `{}`)
			h.synced()
			h.vfs.Fail(fault)
			for i := range 3 {
				path := []string{"disk/a", "disk/b", "disk/a"}[i]
				r, err := h.write(path, strings.Repeat("written meanwhile ", i+1))
				if err != nil || r.Status == "synced" && fault != vfstest.Slow && fault != vfstest.Forgets {
					t.Fatalf("%+v, %v", r, err)
				}
			}
			h.end()
			h.start()
			h.vfs.Fail(vfstest.Healthy)
			h.synced()
			if a, b := h.there("home/disk/a"), h.there("home/disk/b"); a != strings.Repeat("written meanwhile ", 3) || b != strings.Repeat("written meanwhile ", 2) {
				t.Fatalf("a %q, b %q", a, b)
			}
		})
	}
}

func TestACapThatIsNotMirroredSaysSo(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{}`)
	h.synced()
	h.mu.Lock()
	h.set.Enabled = false
	h.mu.Unlock()
	h.Changed(protocol.DefaultSpace, "home")
	if _, err := h.Status(t.Context(), call(owner), StatusParams{Cap: "home"}); protocol.CodeOf(err) != protocol.InvalidState {
		t.Fatal(err)
	}
	h.mu.Lock()
	h.set.Enabled = true
	h.mu.Unlock()
	h.Changed(protocol.DefaultSpace, "home")
	h.synced()
}

func TestALostCapComesBack(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{"name":"Home"}`)
	h.synced()
	if _, err := h.write("disk/d/plan", "first"); err != nil {
		t.Fatal(err)
	}
	h.remove("home")
	h.until("the mirror has ended", func() bool {
		h.Service.mu.Lock()
		defer h.Service.mu.Unlock()
		return len(h.mirrors) == 0 && len(h.ending) == 0
	})
	if err := os.RemoveAll(filepath.Join(h.dir, "default", "home")); err != nil {
		t.Fatal(err)
	}
	recover := func(who *protocol.Principal, p RecoverParams) (RecoverResult, error) {
		p.Cap = "home"
		return h.Recover(t.Context(), call(who), p)
	}
	if _, err := recover(stranger, RecoverParams{}); protocol.CodeOf(err) != protocol.PermissionDenied {
		t.Fatalf("by a stranger: %v", err)
	}
	if _, err := h.Recover(t.Context(), call(owner), RecoverParams{Cap: "never"}); protocol.CodeOf(err) != protocol.NotFound {
		t.Fatalf("of a Cap that never was: %v", err)
	}
	dry, err := recover(owner, RecoverParams{DryRun: true})
	if err != nil || dry.Status != "dry_run" || dry.Total != 4 {
		t.Fatalf("%+v, %v", dry, err)
	}
	if _, ok := h.Documents(protocol.DefaultSpace, "home"); ok {
		t.Fatal("a dry run brought it back")
	}
	done, err := recover(owner, RecoverParams{})
	if err != nil || done.Status != "recovered" || done.Total != 4 {
		t.Fatalf("%+v, %v", done, err)
	}
	data, err := os.ReadFile(filepath.Join(h.dir, "default", "home", "disk", "d", "plan"))
	if err != nil || string(data) != "first" {
		t.Fatalf("%q, %v", data, err)
	}
	h.synced()
	if again, err := recover(owner, RecoverParams{}); err != nil || again.Status != "unchanged" {
		t.Fatalf("%+v, %v", again, err)
	}
	if !h.heard("home cap.vfs.recovered") {
		t.Error("nobody was told")
	}
}

// Many files come back together, also those that are there already, or that
// somebody has changed.
func TestManyFilesComeBack(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{"name":"Home"}`)
	h.synced()
	want := make(map[string]string)
	for i := range 2*maxTogether + 3 {
		path := fmt.Sprintf("d%d/f%d", i%3, i)
		want[path] = "content of " + path
		h.put("home", path, want[path])
	}
	want["empty"], want["large"] = "", strings.Repeat("large", maxSmall)
	h.put("home", "empty", "")
	h.put("home", "large", want["large"])
	h.until("all is there", func() bool { return h.there("home/disk/large") != "" && h.status().Status == "synced" })
	if _, err := h.Pause(t.Context(), call(owner), PauseParams{Cap: "home"}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(h.dir, "default", "home", "disk", "d0")); err != nil {
		t.Fatal(err)
	}
	h.put("home", "d1/f1", "changed")
	done, err := h.Recover(t.Context(), call(owner), RecoverParams{Cap: "home"})
	if err != nil || done.Status != "recovered" || done.Total < maxTogether/2 {
		t.Fatalf("%+v, %v", done, err)
	}
	for path, content := range want {
		data, err := os.ReadFile(filepath.Join(h.dir, "default", "home", "disk", path))
		if err != nil || string(data) != content {
			t.Errorf("%s: %.40q, %v", path, data, err)
		}
	}
	if _, err := h.Resume(t.Context(), call(owner), PauseParams{Cap: "home"}); err != nil {
		t.Fatal(err)
	}
	h.synced()
	if again, err := h.Recover(t.Context(), call(owner), RecoverParams{Cap: "home"}); err != nil || again.Status != "unchanged" {
		t.Errorf("%+v, %v", again, err)
	}
}

// What a recovery replaces is kept, and documents that make no sense bring
// nothing back.
func TestRecoveryIsCareful(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{}`)
	h.synced()
	h.vfs.Fail(vfstest.Outage)
	if _, err := h.write("disk/f", "written here alone"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Recover(t.Context(), call(owner), RecoverParams{Cap: "home"}); protocol.CodeOf(err) != protocol.VFSUnavailable {
		t.Fatalf("without a VFS: %v", err)
	}
	for _, bad := range []string{"0", "-1", "x", "99999999999999999999"} {
		if _, err := h.Recover(t.Context(), call(owner), RecoverParams{Cap: "home", Snapshot: bad}); protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("snapshot %q: %v", bad, err)
		}
	}
	h.remove("home")
	h.vfs.Fail(vfstest.Healthy)
	if _, err := h.memory.Put(t.Context(), vfs.MirrorGroup, "home/cap.json", strings.NewReader("nonsense"), vfs.PutOptions{Size: -1}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Recover(t.Context(), call(owner), RecoverParams{Cap: "home"}); protocol.CodeOf(err) != protocol.SyncFailed {
		t.Fatalf("of nonsense: %v", err)
	}
	if _, ok := h.Documents(protocol.DefaultSpace, "home"); ok {
		t.Fatal("nonsense brought something back")
	}
}

// A snapshot from before the mirror stored the documents brings back files, and
// leaves the Cap described as it is.
func TestASnapshotWithoutDocumentsIsOfFilesAlone(t *testing.T) {
	memory := vfstest.NewMemory() // the faulty one has no snapshots
	h := newHouse(t, func(o *Options) { o.Files = func(protocol.SpaceID) vfs.Files { return memory } })
	first, err := memory.Put(t.Context(), vfs.MirrorGroup, "home/disk/f", strings.NewReader("first"), vfs.PutOptions{Size: -1})
	if err != nil {
		t.Fatal(err)
	}
	h.declare("home", `{"name":"Home"}`)
	h.synced()
	if _, err := h.write("disk/f", "second"); err != nil {
		t.Fatal(err)
	}
	result, err := h.Recover(t.Context(), call(owner), RecoverParams{Cap: "home", Snapshot: strconv.FormatUint(first.Version, 10)})
	if err != nil || result.Status != "recovered" || len(result.Files) != 1 || result.Files[0].Path != "/vfs/cap/home/disk/f" {
		t.Fatalf("%+v, %v", result, err)
	}
	if data, err := os.ReadFile(filepath.Join(h.dir, "default", "home", "disk", "f")); err != nil || string(data) != "first" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	if known, _ := h.Documents(protocol.DefaultSpace, "home"); string(known["cap.json"]) != `{"name":"Home"}` {
		t.Errorf("the Cap is described by %s", known)
	}
	h.remove("home")
	if _, err := h.Recover(t.Context(), call(owner), RecoverParams{Cap: "home", Snapshot: strconv.FormatUint(first.Version, 10)}); protocol.CodeOf(err) != protocol.SyncFailed {
		t.Errorf("a Cap that is gone, without documents: %v", err)
	}
}

// A VFS that comes back empty gets everything again.
func TestAVFSThatComesBackEmptyIsFilled(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{}`)
	h.synced()
	if _, err := h.write("disk/f", "content"); err != nil {
		t.Fatal(err)
	}
	h.vfs.Fail(vfstest.Outage)
	if _, err := h.write("disk/g", "written without it"); err != nil {
		t.Fatal(err)
	}
	h.end()
	h.memory = vfstest.NewMemory()
	h.kept, h.vfs = h.memory, vfstest.NewFaulty(h.memory)
	h.start()
	h.until("everything is there", func() bool {
		return h.there("home/disk/f") == "content" && h.there("home/disk/g") == "written without it" && h.there("home/cap.json") == "{}"
	})
	h.synced()
}

// One service after the other has the folder.
func TestAFolderThatIsInUseIsNotOpenedTwice(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{}`)
	h.synced()
	other := &house{t: t, dir: h.dir, memory: h.memory, vfs: h.vfs, caps: h.caps, set: h.set}
	other.start()
	t.Cleanup(other.end)
	if _, err := other.Status(t.Context(), call(owner), StatusParams{Cap: "home"}); protocol.CodeOf(err) != protocol.SyncFailed || errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}
