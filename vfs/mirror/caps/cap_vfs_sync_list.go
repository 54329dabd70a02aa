package caps

import (
	"context"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs/mirror"
)

var listSpec = commands.Spec{
	Name:    "cap.vfs.sync.list",
	Summary: "List the mirrors of Caps: where each stands, and what is behind.",
	Effect:  commands.Read,
	Action:  "cap:vfs.sync.list",
	Errors:  []protocol.Code{protocol.TargetUnavailable, protocol.OutcomeUnknown},
	Example: `{"behind":true,"sort":"-failed"}`,
}

// ListParams are the params of cap.vfs.sync.list.
type ListParams struct {
	Find   string `json:"find,omitempty" len:"1-128" doc:"only Caps with this text in their id, whatever its case"`
	Behind bool   `json:"behind,omitempty" doc:"only mirrors that are not synced, are paused, or whose folders of devices are"`
	Sort   string `json:"sort,omitempty" enum:"id,-id,status,-status,pending,-pending,failed,-failed,conflicts,-conflicts,last_sync_time,-last_sync_time" doc:"field to sort by, the highest first behind a minus; by id if absent"`
	listing.Page
}

// ListResult is one page of mirrors.
type ListResult struct {
	Mirrors    []MirrorView `json:"mirrors" doc:"the mirrors of this page; empty if none fits"`
	Total      int          `json:"total" doc:"number on all pages"`
	Behind     int          `json:"behind" doc:"number of those behind, of all that the caller may see"`
	NextCursor string       `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last"`
}

// A MirrorView is a Cap's mirror in a list: cap.vfs.sync.status shows the rest.
type MirrorView struct {
	Cap           protocol.CapID `json:"cap_id" doc:"id of the Cap"`
	Status        string         `json:"sync_status" enum:"synced,pending,syncing,conflict,failed" doc:"of the Cap as a whole, when something last happened in it"`
	Pending       int            `json:"pending" doc:"files still to be looked at or transferred"`
	Failed        int            `json:"failed" doc:"files that failed and will be tried again, or cannot be mirrored"`
	Conflicts     int            `json:"conflicts" doc:"copies that lost a conflict and are kept"`
	LastSync      int64          `json:"last_sync_time" doc:"time of the last comparison of everything, Unix milliseconds; 0 for never"`
	Circuit       string         `json:"circuit" enum:"closed,half_open,open" doc:"closed while the VFS is there"`
	Trouble       string         `json:"trouble,omitempty" doc:"reason why the circuit is open, or the Cap's folder cannot be opened"`
	Paused        bool           `json:"paused" doc:"nothing is carried over, see cap.vfs.sync.pause"`
	Folders       int            `json:"folders" doc:"folders of devices that are kept the same as the Cap's disk, and reported themselves lately"`
	FoldersBehind int            `json:"folders_behind" doc:"number of them that are not synced"`
}

// behind reports whether something is not where it should be.
func (v *MirrorView) behind() bool {
	return v.Status != string(mirror.Synced) || v.Paused || v.Circuit != string(mirror.CircuitClosed) || v.FoldersBehind > 0
}

// mirrorOrder holds the columns that lists of mirrors can be sorted by.
var mirrorOrder = listing.Order[MirrorView]{
	ID: func(v MirrorView) string { return string(v.Cap) },
	Keys: map[string]func(MirrorView) listing.Key{
		"status":         func(v MirrorView) listing.Key { return listing.Text(v.Status) },
		"pending":        func(v MirrorView) listing.Key { return listing.Number(int64(v.Pending)) },
		"failed":         func(v MirrorView) listing.Key { return listing.Number(int64(v.Failed)) },
		"conflicts":      func(v MirrorView) listing.Key { return listing.Number(int64(v.Conflicts)) },
		"last_sync_time": func(v MirrorView) listing.Key { return listing.Number(v.LastSync) },
	},
}

// List lists the mirrors of the Caps whose files the caller may look at. It opens
// none: it shows the state of each after its last work.
func (s *Service) List(ctx context.Context, call *commands.Call, p ListParams) (ListResult, error) {
	return entrust(ctx, s, call, &listSpec, p, s.listHere)
}

func (s *Service) listHere(_ context.Context, who *protocol.Principal, p ListParams) (ListResult, error) {
	named, behind := listing.Find(p.Find), 0
	found, err := mirrorOrder.Select(func(yield func(MirrorView) bool) {
		for _, v := range s.views(who.Home()) {
			if _, read, _ := s.o.Channels.May(who, v.Cap); !read {
				continue
			}
			late := v.behind()
			if late {
				behind++
			}
			if named.In(string(v.Cap)) && (late || !p.Behind) && !yield(v) {
				return
			}
		}
	}, p.Sort, p.Page)
	if err != nil {
		return ListResult{}, err
	}
	return ListResult{Mirrors: found.Items, Total: found.Total, Behind: behind, NextCursor: found.Next}, nil
}

// views are the mirrors of a space.
func (s *Service) views(space protocol.SpaceID) []MirrorView {
	s.mu.Lock()
	defer s.mu.Unlock()
	circuit, trouble := mirror.Circuit(mirror.CircuitClosed), ""
	if b := s.breakers[space]; b != nil {
		circuit, trouble = b.Standing()
	}
	var views []MirrorView
	now := time.Now()
	for at, m := range s.mirrors {
		if at.space == space {
			views = append(views, m.summary(circuit, trouble, now))
		}
	}
	return views
}

// summary is a mirror in a list. The lock of the service is held.
func (m *capMirror) summary(circuit mirror.Circuit, trouble string, now time.Time) MirrorView {
	st := &m.standing
	v := MirrorView{Cap: m.id, Status: string(st.Standing), Pending: st.Pending, Failed: st.Failed, Conflicts: st.Conflicts,
		LastSync: st.LastSync, Circuit: string(circuit), Trouble: trouble, Paused: st.Paused}
	if v.Status == "" || v.Status == string(mirror.Synced) && !m.describe.IsZero() {
		v.Status = string(mirror.Pending)
	}
	if m.unopened != "" {
		v.Status, v.Trouble = string(mirror.Failed), m.unopened
	}
	m.dropReports(now)
	for _, r := range m.reports {
		if v.Folders++; r.Status != string(mirror.Synced) {
			v.FoldersBehind++
		}
	}
	return v
}

// note keeps the state of a mirror for the list of all mirrors.
func (s *Service) note(m *capMirror, st mirror.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.standing, m.unopened = st, ""
}
