package caps

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror"
)

var statusSpec = commands.Spec{
	Name:    "cap.vfs.sync.status",
	Summary: "Show where the mirror of a Cap stands, and its files.",
	Effect:  commands.Read,
	Action:  "cap:vfs.sync.status",
	Errors:  []protocol.Code{protocol.NotFound, protocol.InvalidState, protocol.VFSPermission, protocol.SyncFailed, protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"cap_id":"climate","limit":20}`,
}

// StatusParams are the params of cap.vfs.sync.status.
type StatusParams struct {
	Cap    protocol.CapID `json:"cap_id" doc:"the Cap"`
	Only   string         `json:"only,omitempty" enum:"synced,pending,conflict,failed" doc:"only the files that stand there; all when absent"`
	Limit  int            `json:"limit,omitempty" range:"1-1000" default:"100" doc:"number of files to return at most"`
	Cursor string         `json:"cursor,omitempty" len:"1-1024" doc:"next_cursor of the page before"`
}

// Target implements [commands.Targeter].
func (p StatusParams) Target() commands.Resource {
	return commands.Resource{Type: "cap", ID: string(p.Cap)}
}

// StatusResult is the result of cap.vfs.sync.status.
type StatusResult struct {
	Cap        protocol.CapID `json:"cap_id" doc:"id of the Cap"`
	Status     string         `json:"sync_status" enum:"synced,pending,syncing,conflict,failed" doc:"of the Cap as a whole; resolved conflicts are in files"`
	Pending    int            `json:"pending" doc:"files still to be looked at or transferred"`
	Failed     int            `json:"failed" doc:"files that failed and will be tried again, or cannot be mirrored"`
	Conflicts  int            `json:"conflicts" doc:"copies that lost a conflict and are kept"`
	LastSync   int64          `json:"last_sync_time" doc:"time of the last comparison of everything, Unix milliseconds; 0 for never"`
	Count      int64          `json:"sync_count" doc:"number of times"`
	Circuit    string         `json:"circuit" enum:"closed,half_open,open" doc:"closed while the VFS is there"`
	Trouble    string         `json:"trouble,omitempty" doc:"reason why the circuit is open"`
	Noticed    string         `json:"noticed" enum:"at_once,by_scan,on_schedule" doc:"way in which changes in the Cap's folder are found"`
	Degraded   string         `json:"degraded,omitempty" doc:"reason why they are not found at once although the Cap is mirrored in real time"`
	Paused     bool           `json:"paused" doc:"nothing is carried over, see cap.vfs.sync.pause"`
	Free       int64          `json:"free" doc:"bytes that may be written to the disk of the Cap's folder; -1 if nobody knows"`
	Lost       []LostView     `json:"lost,omitempty" doc:"the latest 100 copies that lost a conflict, the last first; cap.vfs.sync.restore brings one back"`
	Folders    []FolderView   `json:"folders,omitempty" doc:"folders of devices that are kept the same as the Cap's disk, as they reported themselves lately"`
	Files      []FileView     `json:"files" doc:"by path"`
	NextCursor string         `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// A FileView is a file as callers see it.
type FileView struct {
	Path     string `json:"vfs_path" doc:"path of the file in the VFS, /vfs/cap/{cap_id}/ and the path in the Cap's folder"`
	Status   string `json:"sync_status" enum:"synced,pending,syncing,conflict,failed" doc:"state of the file: synced, pending (waits), syncing (is being transferred), conflict (resolved; kept names the copy that lost) or failed"`
	Checksum string `json:"checksum,omitempty" doc:"SHA-256 of what both ends agreed on last"`
	Size     int64  `json:"size" doc:"of that, in bytes"`
	Version  uint64 `json:"version,omitempty" doc:"of that, in the VFS"`
	Reason   string `json:"reason,omitempty" doc:"reason why it failed"`
	Kept     string `json:"kept,omitempty" doc:"place of the copy that lost a conflict, in the Cap's folder"`
}

// A LostView is a copy that lost a conflict.
type LostView struct {
	Path     string `json:"vfs_path" doc:"path of the file in the VFS, /vfs/cap/{cap_id}/ and the path in the Cap's folder"`
	Checksum string `json:"checksum,omitempty" doc:"SHA-256 of the copy; absent if a deletion lost"`
	Size     int64  `json:"size" doc:"bytes"`
	Rule     string `json:"rule" doc:"reason why it lost"`
	Winner   string `json:"winner,omitempty" doc:"SHA-256 of what stays; absent if that is a deletion or a folder"`
	Kept     string `json:"kept,omitempty" doc:"place of the copy, in the Cap's folder"`
	Version  uint64 `json:"version,omitempty" doc:"of the copy, if it is in the VFS"`
	Time     int64  `json:"lost_at" doc:"Unix milliseconds"`
}

// Status shows the state of a mirror to the participants of its Cap.
func (s *Service) Status(ctx context.Context, call *commands.Call, p StatusParams) (StatusResult, error) {
	return entrust(ctx, s, call, &statusSpec, p, s.statusHere)
}

func (s *Service) statusHere(ctx context.Context, who *protocol.Principal, p StatusParams) (StatusResult, error) {
	m, engine, release, err := s.find(ctx, who, p.Cap, false)
	if err != nil {
		return StatusResult{}, err
	}
	defer release()
	st := engine.Status()
	if st.Standing == mirror.Synced && !s.described(m, engine) {
		st.Standing = mirror.Pending
	}
	result := StatusResult{Cap: p.Cap, Status: string(st.Standing), Pending: st.Pending, Failed: st.Failed, Conflicts: st.Conflicts,
		LastSync: st.LastSync, Count: st.Syncs, Circuit: string(st.Circuit), Trouble: st.Trouble, Files: []FileView{}}
	result.Noticed, result.Degraded = m.noticed()
	result.Paused, result.Free = st.Paused, st.Free
	result.Lost, result.Folders = m.lost(engine), s.folders(m)
	limit := p.Limit
	if limit == 0 {
		limit = 100
	}
	prefix := m.path("")
	list, next := engine.FilesIn(mirror.Standing(p.Only), strings.TrimPrefix(p.Cursor, prefix), limit)
	if next != "" {
		result.NextCursor = prefix + next
	}
	for _, f := range list {
		result.Files = append(result.Files, m.view(f))
	}
	return result, nil
}

// noticed returns how changes in a Cap's folder are found, and the reason if not at once.
func (m *capMirror) noticed() (how, degraded string) {
	if m.watch == nil {
		return "on_schedule", ""
	}
	if err := m.watch.Trouble(); err != nil {
		return "by_scan", err.Error()
	}
	return "at_once", ""
}

func (m *capMirror) view(f mirror.FileStatus) FileView {
	v := FileView{Path: m.path(f.Path), Status: string(f.Standing), Size: f.Size, Version: f.Version, Reason: f.Reason, Kept: f.Kept}
	if f.SHA256 != (mirror.Sum{}) {
		v.Checksum = hex.EncodeToString(f.SHA256[:])
	}
	return v
}

// maxLost bounds the conflicts of a status.
const maxLost = 100

func (m *capMirror) lost(engine *mirror.Engine) []LostView {
	losers := engine.Losers()
	losers = losers[max(0, len(losers)-maxLost):]
	list := make([]LostView, 0, len(losers))
	for _, l := range slices.Backward(losers) {
		v := LostView{Path: m.path(l.Path), Size: l.Size, Rule: string(l.Rule), Kept: l.Kept, Version: l.Version, Time: l.At}
		if !l.Deleted {
			v.Checksum = hex.EncodeToString(l.SHA256[:])
		}
		if l.Winner.SHA256 != (mirror.Sum{}) {
			v.Winner = hex.EncodeToString(l.Winner.SHA256[:])
		}
		list = append(list, v)
	}
	return list
}
