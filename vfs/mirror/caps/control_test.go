package caps

import (
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/mirror"
	"github.com/aibridge/aibridge/vfs/vfstest"
)

func (h *house) status() StatusResult {
	h.t.Helper()
	st, err := h.Status(h.t.Context(), call(owner), StatusParams{Cap: "home"})
	if err != nil {
		h.t.Fatal(err)
	}
	return st
}

func TestAMirrorIsPausedAndResumed(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{}`)
	h.synced()
	ctx := t.Context()
	if _, err := h.Pause(ctx, call(reader), PauseParams{Cap: "home"}); protocol.CodeOf(err) != protocol.VFSPermission {
		t.Errorf("by a reader: %v", err)
	}
	if r, err := h.Pause(ctx, call(owner), PauseParams{Cap: "home"}); err != nil || !r.Paused {
		t.Fatalf("%+v, %v", r, err)
	}
	h.end()
	h.start() // it is still paused then
	if r, err := h.write("disk/f", "written while paused"); err != nil || r.Status != "pending" {
		t.Errorf("%+v, %v", r, err)
	}
	h.put("home", "g", "by a program")
	if st := h.status(); !st.Paused || st.Status != "pending" || h.there("home/disk/f") != "" {
		t.Errorf("%+v", st)
	}
	if r, err := h.Report(ctx, call(reader), ReportParams{Cap: "home", Folder: FolderReport{Status: "synced"}}); err != nil || !r.Paused {
		t.Errorf("a device is told %+v, %v", r, err)
	}
	if r, err := h.Resume(ctx, call(owner), PauseParams{Cap: "home"}); err != nil || r.Paused {
		t.Fatalf("%+v, %v", r, err)
	}
	h.until("everything arrives", func() bool {
		return h.there("home/disk/f") == "written while paused" && h.there("home/disk/g") == "by a program"
	})
}

func TestALostCopyIsShownAndRestored(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{}`)
	h.synced()
	if _, err := h.Pause(t.Context(), call(owner), PauseParams{Cap: "home"}); err != nil {
		t.Fatal(err)
	}
	h.put("home", "f", "mine")
	if _, err := h.memory.Put(t.Context(), vfs.MirrorGroup, "home/disk/f", strings.NewReader("theirs"), vfs.PutOptions{Size: -1}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Resume(t.Context(), call(owner), PauseParams{Cap: "home"}); err != nil {
		t.Fatal(err)
	}
	h.until("the conflict is over", func() bool { return len(h.status().Lost) == 1 })
	lost := h.status().Lost[0]
	if lost.Path != "/vfs/cap/home/disk/f" || lost.Kept == "" || len(lost.Winner) != 64 || lost.Rule != string(mirror.RemoteWins) {
		t.Errorf("%+v", lost)
	}
	restore := RestoreParams{Cap: "home", Path: lost.Path, Checksum: lost.Checksum}
	if _, err := h.Service.Restore(t.Context(), call(reader), restore); protocol.CodeOf(err) != protocol.VFSPermission {
		t.Errorf("by a reader: %v", err)
	}
	bad := restore
	bad.Checksum = strings.Repeat("0", 64)
	if _, err := h.Service.Restore(t.Context(), call(owner), bad); protocol.CodeOf(err) != protocol.FileNotFound {
		t.Errorf("what never was: %v", err)
	}
	if r, err := h.Service.Restore(t.Context(), call(owner), restore); err != nil || r.Path != lost.Path {
		t.Fatalf("%+v, %v", r, err)
	}
	h.until("it is there again", func() bool { return h.there("home/disk/f") == "mine" })
}

func TestFoldersOfDevicesAreShown(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{}`)
	h.synced()
	report := FolderReport{Status: "failed", Pending: 2, Failed: 1, Free: 7, Problems: []Problem{{"disk/x", "is not a regular file"}}}
	if _, err := h.Report(t.Context(), call(stranger), ReportParams{Cap: "home", Folder: report}); protocol.CodeOf(err) != protocol.VFSPermission {
		t.Errorf("by a stranger: %v", err)
	}
	asked, err := h.Rescan(t.Context(), call(owner), RescanParams{Cap: "home", Contents: true})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := h.Report(t.Context(), call(reader), ReportParams{Cap: "home", Folder: report}); err != nil || r.Paused || r.Rescan.Time != asked.Time || !r.Rescan.Contents {
		t.Errorf("%+v, %v", r, err)
	}
	st := h.status()
	if len(st.Folders) != 1 || st.Folders[0].Owner != "reader" || st.Folders[0].Problems[0].Reason != "is not a regular file" || st.Free <= 0 {
		t.Errorf("%+v", st)
	}
	h.Service.mu.Lock()
	for i := range maxFolders {
		h.mirrors[ref{protocol.DefaultSpace, "home"}].reports[string(rune('a'+i))] = FolderView{Time: time.Now().UnixMilli()}
	}
	h.Service.mu.Unlock()
	if _, err := h.Report(t.Context(), call(owner), ReportParams{Cap: "home", Folder: report}); protocol.CodeOf(err) != protocol.LimitReached {
		t.Errorf("one too many: %v", err)
	}
	h.Service.mu.Lock()
	h.mirrors[ref{protocol.DefaultSpace, "home"}].dropReports(time.Now().Add(2 * reportLife))
	h.Service.mu.Unlock()
	if st := h.status(); len(st.Folders) != 0 {
		t.Errorf("old reports stay: %+v", st.Folders)
	}
}

// A copy that a device keeps is brought back by its next report, and the one after
// tells what became of it.
func TestADeviceIsToldToRestore(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{}`)
	h.synced()
	sum := strings.Repeat("ab", 32)
	report := func(done ...Obeyed) []Order {
		t.Helper()
		r, err := h.Report(t.Context(), call(reader), ReportParams{Cap: "home", Obeyed: done,
			Folder: FolderReport{Name: "hall", Status: "synced", Lost: []Copy{{Path: "plan.txt", Checksum: sum, Size: 4, Time: 5}}}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Orders
	}
	order := RestoreParams{Cap: "home", Path: "/vfs/cap/home/disk/plan.txt", Checksum: strings.ToUpper(sum), Owner: "reader", Folder: "hall"}
	refused := func(what string, code protocol.Code, as *protocol.Principal, change func(*RestoreParams)) {
		t.Helper()
		p := order
		change(&p)
		if _, err := h.Service.Restore(t.Context(), call(as), p); protocol.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", what, err, code)
		}
	}
	refused("before it reported itself", protocol.NotFound, owner, func(*RestoreParams) {})
	if orders := report(); orders != nil {
		t.Errorf("orders from nowhere: %+v", orders)
	}
	refused("by a reader", protocol.VFSPermission, reader, func(*RestoreParams) {})
	refused("no owner", protocol.InvalidParameter, owner, func(p *RestoreParams) { p.Owner = "" })
	refused("another folder", protocol.NotFound, owner, func(p *RestoreParams) { p.Folder = "attic" })
	refused("what no device has", protocol.InvalidParameter, owner, func(p *RestoreParams) { p.Path = "/vfs/cap/home/cap.json" })
	var first int64
	for range 2 { // asked for again while it waits, it is the same order
		r, err := h.Service.Restore(t.Context(), call(owner), order)
		if err != nil || r.Status != "pending" || r.Order == 0 || first != 0 && r.Order != first {
			t.Fatalf("%+v, %v", r, err)
		}
		first = r.Order
	}
	for range 2 { // until it is confirmed
		if orders := report(); len(orders) != 1 || orders[0] != (Order{first, "plan.txt", sum}) {
			t.Fatalf("%+v", orders)
		}
	}
	if f := h.status().Folders[0]; len(f.Lost) != 1 || f.Lost[0].Checksum != sum || f.Restores[0].Status != "ordered" {
		t.Errorf("%+v", f)
	}
	for i := range maxOrders - 1 {
		p := order
		p.Path += strings.Repeat("x", i+1)
		if _, err := h.Service.Restore(t.Context(), call(owner), p); err != nil {
			t.Fatal(err)
		}
	}
	refused("one too many", protocol.LimitReached, owner, func(p *RestoreParams) { p.Path += " and more" })
	rest := report(Obeyed{ID: first}, Obeyed{ID: first + 1_000_000})
	if len(rest) != maxOrders-1 {
		t.Fatalf("%+v", rest)
	}
	report(Obeyed{ID: rest[0].ID, Reason: "no such copy is kept"}, Obeyed{ID: first, Reason: "too late"})
	list := h.status().Folders[0].Restores
	if list[0].Status != "restored" || list[0].Reason != "" || list[1].Status != "failed" || list[1].Reason == "" || list[2].Status != "ordered" {
		t.Errorf("%+v", list)
	}
	refused("in the place of one that is over", "", owner, func(p *RestoreParams) { p.Path += " and more" })
	if list := h.status().Folders[0].Restores; len(list) != maxOrders || list[0].ID == first {
		t.Errorf("%+v", list)
	}
}

func TestIgnoredFilesOfACapsDisk(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{}`)
	h.synced()
	h.put("home", mirror.IgnoreFile, "*.tmp\n")
	h.until("the patterns arrive", func() bool { return h.there("home/disk/"+mirror.IgnoreFile) != "" })
	h.put("home", "x.tmp", "not to be sent")
	h.put("home", "x.txt", "to be sent")
	h.until("the other file arrives", func() bool { return h.there("home/disk/x.txt") != "" })
	if got := h.there("home/disk/x.tmp"); got != "" {
		t.Errorf("sent: %q", got)
	}
	failed, err := h.Status(t.Context(), call(owner), StatusParams{Cap: "home", Only: "failed"})
	if err != nil || len(failed.Files) != 0 {
		t.Errorf("%+v, %v", failed.Files, err)
	}
}

// list asks for the mirrors that a principal may see, as "cap status".
func (h *house) list(who *protocol.Principal, p ListParams) (ListResult, []string) {
	h.t.Helper()
	found, err := h.List(h.t.Context(), call(who), p)
	if err != nil {
		h.t.Fatal(err)
	}
	names := []string{}
	for _, m := range found.Mirrors {
		names = append(names, string(m.Cap)+" "+m.Status)
	}
	return found, names
}

func TestMirrorsAreListedWithWhatIsBehind(t *testing.T) {
	h := newHouse(t)
	h.declare("home", `{}`)
	h.declare("office", `{}`)
	listed := func(want string, who *protocol.Principal, p ListParams) {
		t.Helper()
		var got []string
		h.until(want, func() bool {
			_, got = h.list(who, p)
			return strings.Join(got, ", ") == want
		})
	}
	listed("home synced, office synced", reader, ListParams{})
	listed("", reader, ListParams{Behind: true})
	listed("", stranger, ListParams{})
	listed("", &protocol.Principal{ID: "owner", Space: "lab"}, ListParams{})
	listed("office synced", reader, ListParams{Find: "OFF"})
	if _, err := h.Pause(t.Context(), call(owner), PauseParams{Cap: "office"}); err != nil {
		t.Fatal(err)
	}
	h.put("office", "f", "waits")
	listed("office pending, home synced", owner, ListParams{Sort: "-pending"})
	if found, _ := h.list(owner, ListParams{Behind: true}); found.Behind != 1 || found.Total != 1 || !found.Mirrors[0].Paused {
		t.Errorf("%+v", found)
	}
	if _, err := h.Report(t.Context(), call(reader), ReportParams{Cap: "home", Folder: FolderReport{Name: "hall", Status: "failed"}}); err != nil {
		t.Fatal(err)
	}
	if found, _ := h.list(owner, ListParams{Behind: true}); found.Behind != 2 || found.Mirrors[0].Folders != 1 || found.Mirrors[0].FoldersBehind != 1 {
		t.Errorf("with a folder of a device: %+v", found)
	}
	h.vfs.Fail(vfstest.Outage)
	h.until("the circuit is open", func() bool {
		found, _ := h.list(owner, ListParams{Find: "home"})
		return found.Mirrors[0].Circuit == "open" && found.Mirrors[0].Trouble != ""
	})
}
