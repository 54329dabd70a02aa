package cap

import (
	"github.com/aibridge/aibridge/protocol"
)

// A Status is whether a Cap is in use.
type Status string

// The statuses. An inactive Cap keeps everything and can be read, but takes no
// members, data or messages until it is active again.
const (
	Active   Status = "active"
	Inactive Status = "inactive"
)

// Info is the declaration of a Cap, without its id and its owner.
type Info struct {
	Name        string               `json:"cap_name" len:"1-128" text:"line" doc:"for people"`
	Description string               `json:"cap_desc,omitempty" len:"1-512" doc:"purpose"`
	Type        string               `json:"cap_type,omitempty" len:"1-32" default:"generic" doc:"kind of Cap"`
	Scenes      []protocol.SceneType `json:"supported_scenes,omitempty" len:"1-10" doc:"the scenes it can be the channel of; all when absent"`
	MaxMembers  int                  `json:"max_members,omitempty" range:"1-1000" default:"100" doc:"members a group may have"`
	Storage     string               `json:"data_storage_type,omitempty" len:"1-32" default:"json" doc:"form in which data is mirrored to files"`
	LinkType    string               `json:"link_type,omitempty" len:"1-32" default:"bidirectional" doc:"bidirectional gives every link both directions"`
	DiskPath    string               `json:"disk_path,omitempty" len:"1-256" doc:"folder in the Cap's own area; derived from cap_id when absent"`
	GroupFile   string               `json:"group_file_path,omitempty" len:"1-256" doc:"file of groups in the Cap's own area"`
	LinksFile   string               `json:"links_file_path,omitempty" len:"1-256" doc:"file of links in the Cap's own area"`
	Sync        bool                 `json:"sync_enabled" default:"true" doc:"true if it is mirrored to files"`
	SyncEvery   int                  `json:"sync_interval,omitempty" range:"1-3600" default:"60" doc:"seconds between two mirrorings"`
	SyncType    string               `json:"sync_type,omitempty" enum:"REAL_TIME,SCHEDULED" default:"REAL_TIME" doc:"true if files are mirrored as they change, not in every interval alone"`
	Conflict    string               `json:"sync_conflict,omitempty" enum:"remote_wins,local_wins,latest_wins,keep_both" default:"remote_wins" doc:"side that wins when a file was changed here and in the VFS"`
}

// bidirectional is the link type that gives links both directions.
const bidirectional = "bidirectional"

// complete fills in the fields that depend on others and normalizes paths.
func (i *Info) complete(id protocol.CapID) error {
	for _, p := range []struct {
		name     string
		path     *string
		fallback string
	}{
		{"disk_path", &i.DiskPath, "disk"},
		{"group_file_path", &i.GroupFile, "group.json"},
		{"links_file_path", &i.LinksFile, "links.json"},
	} {
		if *p.path == "" {
			*p.path = string(id) + "/" + p.fallback
		}
		inside, reason := areaPath(*p.path)
		if reason != "" {
			return protocol.InvalidParam(p.name, reason)
		}
		*p.path = inside
	}
	if i.GroupFile == i.LinksFile {
		return protocol.InvalidParam("links_file_path", "is the file of groups too")
	}
	return nil
}

// A Cap is a declared Cap, as stored. It is immutable.
type Cap struct {
	ID    protocol.CapID   `json:"cap_id"`
	Space protocol.SpaceID `json:"space_id"`
	Skill protocol.SkillID `json:"skill_id"` // that it belongs to
	Owner protocol.Party   `json:"owner"`    // declared it
	Info
	Status     Status `json:"status"`
	DeclaredAt int64  `json:"declared_at"` // Unix milliseconds
	UpdatedAt  int64  `json:"updated_at"`  // Unix milliseconds
}

// KeptFor names the budget of records that it uses: the owner's.
func (c *Cap) KeptFor() protocol.Party { return c.Owner }

func (c *Cap) key() string { return capKey(c.Space, c.ID) }

// links reports whether links of the Cap have both directions.
func (c *Cap) bothWays() bool { return c.LinkType == bidirectional }

// A View is a Cap as callers see it.
type View struct {
	ID    protocol.CapID   `json:"cap_id" doc:"id of the Cap, unique in its space"`
	Skill protocol.SkillID `json:"skill_id" doc:"the skill it belongs to"`
	Info
	// The same by the names that the protocol's data model has.
	ModelName        string `json:"name" doc:"cap_name"`
	ModelDescription string `json:"description,omitempty" doc:"cap_desc"`
	ModelType        string `json:"type" doc:"cap_type"`

	Status     Status `json:"status" enum:"active,inactive" doc:"active, or inactive: everything is kept and can be read, but nobody joins and nothing is set or sent"`
	Groups     int    `json:"groups" doc:"number of its groups"`
	Revision   uint64 `json:"revision" doc:"number of this version of the declaration; rises with every change and is expected by revision of cap.update"`
	DeclaredAt int64  `json:"declared_at" doc:"Unix milliseconds"`
	UpdatedAt  int64  `json:"updated_at" doc:"Unix milliseconds"`
}
