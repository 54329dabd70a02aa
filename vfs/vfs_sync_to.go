package vfs

import (
	"context"
	"encoding/base64"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var syncTo = commands.Spec{
	Name:    "vfs.sync.to",
	Summary: "Write small files of a group.",
	Effect:  commands.Write,
	Action:  "vfs:write",
	Errors:  []protocol.Code{protocol.VFSUnavailable, protocol.SyncFailed, protocol.VFSPermission, protocol.NoSpace},
	Example: `{"group_name":"skill-a-group","files":[{"path":"test-data-1.json","content":"{\"name\":\"Skill A\"}"},{"path":"test-data-2.txt","content":"Sample text file"}]}`,
}

// SyncToParams are the params of vfs.sync.to.
type SyncToParams struct {
	Group protocol.GroupName `json:"group_name" doc:"the group of files"`
	Files []SyncToFile       `json:"files" len:"1-500" doc:"the files; each stands for itself"`
}

// A SyncToFile is a file to write.
type SyncToFile struct {
	Path        string  `json:"path" len:"1-1024" doc:"relative, with slashes"`
	Content     string  `json:"content" doc:"all of the file"`
	Encoding    string  `json:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8" doc:"state of the file's content"`
	Checksum    string  `json:"checksum,omitempty" len:"64-64" doc:"the SHA-256 the file must have, hexadecimal"`
	Version     *uint64 `json:"version,omitempty" doc:"the version the file must have, 0 for one that must not be there, else it is refused with 3003"`
	ContentType string  `json:"content_type,omitempty" len:"1-255" doc:"kept with the file"`
	Mtime       int64   `json:"mtime,omitempty" range:"0-9007199254740991" doc:"time of the last change of the content, Unix milliseconds; kept with the file"`
}

// Target implements [commands.Targeter].
func (p SyncToParams) Target() commands.Resource { return groupResource(p.Group) }

// SyncResult is the result of the commands that sync files.
type SyncResult struct {
	Group protocol.GroupName `json:"group_name" doc:"name of the group of files"`
	Files []SyncedFile       `json:"files" doc:"in the order of the request"`
	Next  string             `json:"next_cursor,omitempty" doc:"cursor of the next page"`
}

// A SyncedFile is the outcome for one file.
type SyncedFile struct {
	Path     string          `json:"path" doc:"path of the file in its group, with slashes"`
	Status   SyncStatus      `json:"status" enum:"synced,upload,download,deleted,conflict,not_found,too_large,failed" doc:"outcome or next step: synced (both sides are equal), upload (the caller's is to be sent), download (the VFS's is to be fetched), deleted (from the VFS), conflict (both have changed), not_found (in the VFS), too_large (for this answer; GET /vfs/download has it) or failed"`
	Checksum string          `json:"checksum,omitempty" doc:"SHA-256 of what the VFS has, hexadecimal"`
	ID       string          `json:"file_id,omitempty" doc:"id of the file through all its versions; absent if the VFS has no such file, and after a failure"`
	Version  uint64          `json:"version,omitempty" doc:"version that the VFS has; rises with every change; absent if the VFS has no such file, and after a failure"`
	Mtime    int64           `json:"mtime,omitempty" doc:"time of the last change of the content where it came from, as the writer said; Unix milliseconds"`
	Size     *int64          `json:"size,omitempty" doc:"bytes"`
	Content  *string         `json:"content,omitempty" doc:"all of the file, as encoding says; only in the answer of vfs.sync.from and only with status synced"`
	Encoding string          `json:"encoding,omitempty" enum:"utf-8,base64" doc:"state of the file's content"`
	Error    *SyncedFileFail `json:"error,omitempty" doc:"reason why it failed"`
}

// A SyncedFileFail is why a file was not synced.
type SyncedFileFail struct {
	Code    protocol.Code `json:"code" doc:"error code, four digits"`
	Message string        `json:"message" doc:"description of the error for people"`
}

// A SyncStatus is the state of the transfer of a file.
type SyncStatus string

// The statuses.
const (
	Synced   SyncStatus = "synced"    // both sides have the same
	Upload   SyncStatus = "upload"    // the caller has a content that the VFS lacks
	Download SyncStatus = "download"  // the VFS has a content that the caller lacks
	Gone     SyncStatus = "deleted"   // the file was deleted from the VFS
	Conflict SyncStatus = "conflict"  // both have changed it
	Missing  SyncStatus = "not_found" // the VFS has no such file
	TooLarge SyncStatus = "too_large" // for an answer; GET /vfs/download has it
	Failed   SyncStatus = "failed"
)

func syncedFile(status SyncStatus, f File) SyncedFile {
	s := SyncedFile{Path: f.Path, Status: status, ID: f.ID, Version: f.Version, Mtime: f.Mtime}
	if !f.Deleted {
		s.Checksum, s.Size = f.SHA256.String(), &f.Size
	}
	return s
}

// failedFile is the result of a file that was not synced, with the code and the message
// of the error alone.
func failedFile(path string, err error) SyncedFile {
	e := protocol.AsError(err)
	status := Failed
	switch e.Code {
	case protocol.FileNotFound:
		status = Missing
	case protocol.RevisionConflict:
		status = Conflict
	}
	return SyncedFile{Path: path, Status: status, Error: &SyncedFileFail{e.Code, e.Message}}
}

// SyncTo writes files of a group that the caller may write to. A file that cannot
// be written does not affect the others.
func (s *Service) SyncTo(ctx context.Context, call *commands.Call, p SyncToParams) (SyncResult, error) {
	files, err := s.For(ctx, call.Principal, string(p.Group), true)
	if err != nil {
		return SyncResult{}, err
	}
	result := SyncResult{Group: p.Group, Files: make([]SyncedFile, len(p.Files))}
	batch := make([]Content, 0, len(p.Files))
	index := make([]int, 0, len(p.Files))
	for i := range p.Files {
		c, err := p.Files[i].decode()
		if err != nil {
			result.Files[i] = failedFile(p.Files[i].Path, err)
			continue
		}
		batch, index = append(batch, c), append(index, i)
	}
	results, err := PutAll(ctx, files, string(p.Group), batch)
	if err != nil {
		return SyncResult{}, err
	}
	for n, r := range results {
		if r.Err != nil {
			result.Files[index[n]] = failedFile(batch[n].Path, r.Err)
		} else {
			result.Files[index[n]] = syncedFile(Synced, r.File)
		}
	}
	return result, nil
}

func (f *SyncToFile) decode() (Content, error) {
	c := Content{Path: Relative(f.Path), Data: []byte(f.Content), PutOptions: PutOptions{Size: -1, IfVersion: f.Version, ContentType: f.ContentType, Mtime: f.Mtime}}
	if f.Encoding == "base64" {
		data, err := base64.StdEncoding.DecodeString(f.Content)
		if err != nil {
			return c, protocol.InvalidParam("content", "is not standard base64")
		}
		c.Data = data
	}
	if f.Checksum != "" {
		sum, err := ParseSum(f.Checksum)
		if err != nil {
			return c, err
		}
		c.SHA256 = &sum
	}
	return c, nil
}
