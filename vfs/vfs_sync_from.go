package vfs

import (
	"context"
	"encoding/base64"
	"unicode/utf8"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var syncFrom = commands.Spec{
	Name:    "vfs.sync.from",
	Summary: "Read small files of a group.",
	Effect:  commands.Read,
	Action:  "vfs:read",
	Errors:  []protocol.Code{protocol.VFSUnavailable, protocol.SyncFailed, protocol.VFSPermission},
	Example: `{"group_name":"skill-a-group","files":["test-data-1.json","test-data-2.txt"]}`,
}

// SyncFromParams are the params of vfs.sync.from.
type SyncFromParams struct {
	Group protocol.GroupName `json:"group_name" doc:"the group of files"`
	Files []string           `json:"files" len:"1-500" each:"1-1024" doc:"the paths of the files"`
}

// Target implements [commands.Targeter].
func (p SyncFromParams) Target() commands.Resource { return groupResource(p.Group) }

// maxAnswer bounds the bytes of files in an answer: in base64 they fit into an MQTT packet of the
// default size.
const maxAnswer = 700 << 10

// SyncFrom reads files of a group that the caller may read. A file that cannot be
// read does not affect the others; one that does not fit into the answer any more
// is too_large.
func (s *Service) SyncFrom(ctx context.Context, call *commands.Call, p SyncFromParams) (SyncResult, error) {
	files, err := s.For(ctx, call.Principal, string(p.Group), false)
	if err != nil {
		return SyncResult{}, err
	}
	result := SyncResult{Group: p.Group, Files: make([]SyncedFile, len(p.Files))}
	room := int64(maxAnswer)
	for i, path := range p.Files {
		if result.Files[i], err = readSmall(ctx, files, string(p.Group), Relative(path), &room); err != nil {
			if code := protocol.CodeOf(err); code == protocol.VFSUnavailable {
				return SyncResult{}, err
			}
			result.Files[i] = failedFile(path, err)
		}
	}
	return result, nil
}

func readSmall(ctx context.Context, files Files, group, path string, room *int64) (SyncedFile, error) {
	f, data, err := getWhole(ctx, files, group, path, *room)
	if f.Version != 0 && protocol.CodeOf(err) == protocol.PayloadTooLarge {
		return syncedFile(TooLarge, f), nil
	}
	if err != nil {
		return SyncedFile{}, err
	}
	*room -= f.Size
	s := syncedFile(Synced, f)
	text := string(data)
	if s.Encoding = "utf-8"; !utf8.Valid(data) {
		s.Encoding, text = "base64", base64.StdEncoding.EncodeToString(data)
		*room -= f.Size / 3
	}
	s.Content = &text
	return s, nil
}
