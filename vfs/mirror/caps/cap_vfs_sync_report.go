package caps

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var reportSpec = commands.Spec{
	Name:    "cap.vfs.sync.report",
	Summary: "Tell where a device's folder stands that is kept the same as a Cap's disk, and learn what it is to do.",
	Effect:  commands.Write,
	Action:  "cap:vfs.sync",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.VFSPermission, protocol.SyncFailed, protocol.LimitReached, protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"cap_id":"climate","folder":{"name":"hall","sync_status":"failed","pending":1,"failed":1,"conflicts":0,"free":52428800,"problems":[{"path":"plan.txt","reason":"no space left in the folder"}]}}`,
}

// Bounds of the reports kept about folders of devices.
const (
	maxFolders = 256 // of a Cap
	reportLife = 10 * time.Minute
)

// ReportParams are the params of cap.vfs.sync.report.
type ReportParams struct {
	Cap    protocol.CapID `json:"cap_id" doc:"the Cap"`
	Folder FolderReport   `json:"folder" doc:"place of the folder"`
	// Obeyed may name orders again that were confirmed before.
	Obeyed []Obeyed `json:"obeyed,omitempty" len:"0-8" doc:"outcome of the orders to restore a copy in the answer to the report before; an order is repeated until it is named here"`
}

// Target implements [commands.Targeter].
func (p ReportParams) Target() commands.Resource {
	return commands.Resource{Type: "cap", ID: string(p.Cap)}
}

// A FolderReport is the state of a device's folder.
type FolderReport struct {
	Name      string    `json:"name,omitempty" len:"1-128" doc:"tells folders of one principal apart, such as the agent's id"`
	Status    string    `json:"sync_status" enum:"synced,pending,syncing,conflict,failed" doc:"state of the folder as a whole: synced, pending (files wait), syncing (files are being transferred), conflict or failed"`
	Pending   int       `json:"pending" range:"0-1000000000" doc:"files still to be looked at or transferred"`
	Failed    int       `json:"failed" range:"0-1000000000" doc:"files that failed and will be tried again, or cannot be mirrored"`
	Conflicts int       `json:"conflicts" range:"0-1000000000" doc:"copies that lost a conflict and are kept there"`
	Free      int64     `json:"free" range:"-1-9007199254740991" doc:"bytes that may be written to its disk; -1 if nobody knows"`
	LastSync  int64     `json:"last_sync_time,omitempty" range:"0-9007199254740991" doc:"time of the last comparison of everything, Unix milliseconds"`
	Paused    bool      `json:"paused,omitempty" doc:"nothing is carried over"`
	Problems  []Problem `json:"problems,omitempty" len:"0-20" doc:"some of the files that failed"`
	Lost      []Copy    `json:"lost,omitempty" len:"0-20" doc:"the latest copies that lost a conflict and are kept there, the last first; cap.vfs.sync.restore with owner and folder brings one back"`
}

// A Problem is a file that failed.
type Problem struct {
	Path   string `json:"path" len:"1-1024" doc:"in the folder"`
	Reason string `json:"reason" len:"1-512" doc:"reason"`
}

// A Copy is a copy of a file that a device's folder keeps.
type Copy struct {
	Path     string `json:"path" len:"1-1024" doc:"of the file, in the folder"`
	Checksum string `json:"checksum" len:"64-64" doc:"SHA-256 of the copy, hexadecimal"`
	Size     int64  `json:"size" range:"0-9007199254740991" doc:"bytes"`
	Time     int64  `json:"lost_at" range:"0-9007199254740991" doc:"Unix milliseconds"`
}

// A FolderView is a device's folder as callers see it.
type FolderView struct {
	Owner string `json:"owner" doc:"the principal that reported it"`
	Time  int64  `json:"reported_at" doc:"Unix milliseconds"`
	FolderReport
	Restores []RestoreView `json:"restores,omitempty" doc:"the latest orders to bring a copy back, oldest first"`
}

// ReportResult is the result of cap.vfs.sync.report: the orders for the device.
type ReportResult struct {
	Cap    protocol.CapID `json:"cap_id" doc:"id of the Cap"`
	Paused bool           `json:"paused" doc:"nothing is to be carried over"`
	Rescan Rescan         `json:"rescan" doc:"the latest look at everything that was asked for"`
	Orders []Order        `json:"restore,omitempty" doc:"copies to bring back, oldest first; each is to be done once, and confirmed by obeyed of the next report"`
}

// Report notes the state of a device's folder, for a while. It needs the right to
// read the Cap's files.
func (s *Service) Report(ctx context.Context, call *commands.Call, p ReportParams) (ReportResult, error) {
	return entrust(ctx, s, call, &reportSpec, p, s.reportHere)
}

func (s *Service) reportHere(ctx context.Context, who *protocol.Principal, p ReportParams) (ReportResult, error) {
	m, engine, release, err := s.find(ctx, who, p.Cap, false)
	if err != nil {
		return ReportResult{}, err
	}
	paused := engine.Paused()
	release()
	view := FolderView{Owner: who.ID, Time: time.Now().UnixMilli(), FolderReport: p.Folder}
	key := folderKey(view.Owner, view.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := m.reports[key]
	if !known && len(m.reports) >= maxFolders {
		if m.dropReports(time.Now()); len(m.reports) >= maxFolders {
			return ReportResult{}, protocol.Errorf(protocol.LimitReached, "%d folders of devices are kept the same as this Cap's disk already", maxFolders).
				With("limit", maxFolders)
		}
	}
	if m.reports == nil {
		m.reports = make(map[string]FolderView)
	}
	view.Restores = confirm(before.Restores, p.Obeyed)
	m.reports[key] = view
	return ReportResult{Cap: p.Cap, Paused: paused, Rescan: m.rescan, Orders: unconfirmed(view.Restores)}, nil
}

// folderKey names a device's folder among the reports.
func folderKey(owner, name string) string { return owner + "\x00" + name }

// dropReports forgets reports that were not repeated for long. The lock of the
// service is held.
func (m *capMirror) dropReports(now time.Time) {
	old := now.Add(-reportLife).UnixMilli()
	maps.DeleteFunc(m.reports, func(_ string, v FolderView) bool { return v.Time < old })
}

// folders lists the folders of devices.
func (s *Service) folders(m *capMirror) []FolderView {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.dropReports(time.Now())
	list := make([]FolderView, 0, len(m.reports))
	for _, v := range m.reports {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b FolderView) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Name, b.Name))
	})
	return list
}
