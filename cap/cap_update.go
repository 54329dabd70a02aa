package cap

import (
	"context"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/protocol"
)

var update = commands.Spec{
	Name:    "cap.update",
	Summary: "Change what is declared about a Cap.",
	Effect:  commands.Write,
	Action:  "cap:update",
	Errors:  []protocol.Code{protocol.NotFound, protocol.PermissionDenied, protocol.RevisionConflict, protocol.LimitReached},
	Example: `{"cap_id":"climate","cap_info":{"cap_name":"Climate upstairs","sync_interval":30}}`,
}

// UpdateParams are the params of cap.update.
type UpdateParams struct {
	ID       protocol.CapID `json:"cap_id" doc:"the Cap"`
	Changes  Changes        `json:"cap_info" doc:"the fields to change; others stay"`
	Revision *uint64        `json:"revision,omitempty" doc:"the revision it must have, else 3003"`
}

// Target implements [commands.Targeter].
func (p UpdateParams) Target() commands.Resource {
	return commands.Resource{Type: "cap", ID: string(p.ID)}
}

// Changes are the fields of [Info] that are to change, and the status.
type Changes struct {
	Name        *string               `json:"cap_name,omitempty" len:"1-128" text:"line" doc:"for people"`
	Description *string               `json:"cap_desc,omitempty" len:"1-512" doc:"purpose"`
	Type        *string               `json:"cap_type,omitempty" len:"1-32" doc:"kind of Cap"`
	Scenes      *[]protocol.SceneType `json:"supported_scenes,omitempty" len:"1-10" doc:"the scenes it can be the channel of"`
	MaxMembers  *int                  `json:"max_members,omitempty" range:"1-1000" doc:"members a group may have"`
	Storage     *string               `json:"data_storage_type,omitempty" len:"1-32" doc:"form in which data is mirrored to files"`
	LinkType    *string               `json:"link_type,omitempty" len:"1-32" doc:"bidirectional gives every link made from now on both directions"`
	DiskPath    *string               `json:"disk_path,omitempty" len:"1-256" doc:"folder in the Cap's own area"`
	GroupFile   *string               `json:"group_file_path,omitempty" len:"1-256" doc:"file of groups in the Cap's own area"`
	LinksFile   *string               `json:"links_file_path,omitempty" len:"1-256" doc:"file of links in the Cap's own area"`
	Sync        *bool                 `json:"sync_enabled,omitempty" doc:"true if it is mirrored to files"`
	SyncEvery   *int                  `json:"sync_interval,omitempty" range:"1-3600" doc:"seconds between two mirrorings"`
	SyncType    *string               `json:"sync_type,omitempty" enum:"REAL_TIME,SCHEDULED" doc:"true if files are mirrored as they change, not in every interval alone"`
	Conflict    *string               `json:"sync_conflict,omitempty" enum:"remote_wins,local_wins,latest_wins,keep_both" doc:"side that wins when a file was changed here and in the VFS"`
	Status      *Status               `json:"status,omitempty" enum:"active,inactive" doc:"of an inactive Cap nothing but this can be used"`
}

// apply makes the changes and names the fields, in the order of declaration.
func (c *Changes) apply(to *Cap) []string {
	var names []string
	set(&names, "cap_name", &to.Name, c.Name)
	set(&names, "cap_desc", &to.Description, c.Description)
	set(&names, "cap_type", &to.Type, c.Type)
	if c.Scenes != nil {
		to.Scenes, names = *c.Scenes, append(names, "supported_scenes")
	}
	set(&names, "max_members", &to.MaxMembers, c.MaxMembers)
	set(&names, "data_storage_type", &to.Storage, c.Storage)
	set(&names, "link_type", &to.LinkType, c.LinkType)
	set(&names, "disk_path", &to.DiskPath, c.DiskPath)
	set(&names, "group_file_path", &to.GroupFile, c.GroupFile)
	set(&names, "links_file_path", &to.LinksFile, c.LinksFile)
	set(&names, "sync_enabled", &to.Sync, c.Sync)
	set(&names, "sync_interval", &to.SyncEvery, c.SyncEvery)
	set(&names, "sync_type", &to.SyncType, c.SyncType)
	set(&names, "sync_conflict", &to.Conflict, c.Conflict)
	set(&names, "status", &to.Status, c.Status)
	return names
}

func set[T any](names *[]string, name string, field, value *T) {
	if value != nil {
		*field = *value
		*names = append(*names, name)
	}
}

// UpdateResult is the result of cap.update.
type UpdateResult struct {
	ID       protocol.CapID `json:"cap_id" doc:"id of the Cap"`
	Updated  []string       `json:"updated_fields" doc:"the fields that were given"`
	Revision uint64         `json:"revision" doc:"number of the stored version; the one before if nothing was to change"`
}

// Update changes a Cap.
func (s *Service) Update(ctx context.Context, call *commands.Call, p UpdateParams) (UpdateResult, error) {
	c, _, err := s.find(call, p.ID)
	if err != nil {
		return UpdateResult{}, err
	}
	var names []string
	_, revision, err := records.Change(ctx, s.opts.Caps, c.key(), func(old *Cap, held uint64) (*Cap, error) {
		switch {
		case old == nil:
			return nil, protocol.Errorf(protocol.NotFound, "there is no Cap %q", p.ID).With("cap_id", string(p.ID))
		case !owns(call.Principal, old):
			return nil, notYours(old)
		case p.Revision != nil && *p.Revision != held:
			return nil, conflict("the Cap", *p.Revision, held)
		}
		changed := *old
		if names = p.Changes.apply(&changed); len(names) == 0 {
			return old, nil
		}
		changed.UpdatedAt = s.opts.Now().UnixMilli()
		if err := changed.complete(p.ID); err != nil {
			return nil, inField("cap_info", err)
		}
		return &changed, s.roomFor(&changed)
	})
	if err != nil {
		return UpdateResult{}, err
	}
	if names == nil {
		names = []string{}
	}
	return UpdateResult{p.ID, names, revision}, nil
}

// inField puts the name of a field before the place an error names.
func inField(field string, err error) error {
	e := protocol.AsError(err)
	path, _ := e.Details["param_name"].(string)
	reason, _ := e.Details["reason"].(string)
	return protocol.InvalidParam(field+"."+path, reason)
}
