package vfs

import (
	"context"
	"encoding/json"

	"github.com/aibridge/aibridge/internal/announce"
	"github.com/aibridge/aibridge/protocol"
)

// Names of the events of a group.
const (
	EventPut     = "vfs.put"     // a version with content; data is a [FileChange]
	EventDeleted = "vfs.deleted" // a version that says the file is gone; data is a [FileChange]
	EventMissed  = "vfs.missed"  // there were too many changes for an event of each: list the group; data has its name
)

// A FileChange is the content of an event about a file.
type FileChange struct {
	Group string `json:"group_name"`
	FileView
}

// A change is a version on its way to the topic of its group.
type change struct {
	space protocol.SpaceID
	file  File
}

// maxChangesWaiting bounds the changes that wait to be published.
const maxChangesWaiting = 16384

// changed announces a version. A version that finds no room is announced as missed.
func (s *Service) changed(in protocol.SpaceID, f File) {
	if !s.news.Event(change{in, f}) {
		s.news.Value(groupID{in, f.Group})
	}
}

// Run publishes changes until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	s.news.Run(ctx, announce.Publisher[change, groupID]{
		Event: s.tellChange,
		Value: s.tellMissed,
		Lost:  func(n int) { s.opts.Log.Warn("changes of files are not told one by one", "count", n) },
	})
	return nil
}

func (s *Service) tellChange(c change) {
	name := EventPut
	if c.file.Deleted {
		name = EventDeleted
	}
	s.publish(c.space, c.file.Group, name, FileChange{c.file.Group, c.file.View()})
}

func (s *Service) tellMissed(g groupID) {
	s.publish(g.space, g.group, EventMissed, struct {
		Group string `json:"group_name"`
	}{g.group})
}

// publish sends an event to the subscribers of a group in the space; their right is
// checked when they subscribe.
func (s *Service) publish(in protocol.SpaceID, group, name string, about any) {
	data, err := json.Marshal(about)
	if err != nil {
		s.opts.Log.Warn("a change of a file cannot be written as JSON", "error", err)
		return
	}
	s.seq++
	e := protocol.Event{
		Version: protocol.Version, ID: protocol.NewID(), Timestamp: s.opts.Now().UnixMilli(), Name: name, Seq: s.seq, Data: data,
		Metadata: protocol.Metadata{SenderID: s.opts.BridgeID},
	}
	topic := s.opts.Topics.VFSEvent(protocol.GroupName(group))
	m := protocol.Message{Topic: topic, Payload: e.Append(nil), QoS: 1, ContentType: protocol.ContentJSON}
	if _, err := s.opts.Publish(protocol.Everybody(in), m); err != nil {
		s.opts.Log.Warn("a change of a file is not published", "topic", topic, "error", err)
	}
}

// MayFollow reports whether a principal may hear of changes of a group's files: its
// readers and the managers of the space may. A group without an owner counts as
// another principal's. It is called for every message.
func (s *Service) MayFollow(who *protocol.Principal, group string) bool {
	switch {
	case who.Manages(who.Home()):
		return true
	case group == MirrorGroup || s.ownable(who, group):
		return false
	}
	return s.MayUseFiles(who, group, false)
}
