package toolhost

import (
	"cmp"
	"context"
	"path"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
)

// A Quota bounds the files of a run: all of @state but its log, and the additions of
// one host's calls to a local folder that is @project. Groups of the VFS have quotas of
// their own. Zero values are the defaults.
type Quota struct {
	Bytes int64 // 64 MiB
	Files int   // and folders, 10 000
}

// The defaults of [Quota].
const (
	DefaultQuotaBytes = 64 << 20
	DefaultQuotaFiles = 10_000
)

func (q Quota) orDefault() Quota {
	return Quota{cmp.Or(q.Bytes, DefaultQuotaBytes), cmp.Or(q.Files, DefaultQuotaFiles)}
}

// A countable is a mount that can count its files. Local folders can.
type countable interface {
	Usage(ctx context.Context, without string) (mount.Usage, error)
}

// used is the usage of a mount that counts towards the quota, nil for a mount without
// one. It is counted once, and then updated by the writes.
func (h *Host) used(ctx context.Context, location mount.Location) (*mount.Usage, error) {
	folder, ok := location.FS.(countable)
	if !ok {
		return nil, nil
	}
	if u := h.usage[location.Mount]; u != nil {
		return u, nil
	}
	u := &mount.Usage{} // existing files of a project do not count
	if location.Mount == mount.State {
		counted, err := folder.Usage(ctx, logsFolder)
		if err != nil {
			return nil, err
		}
		*u = counted
	}
	h.usage[location.Mount] = u
	return u, nil
}

// room refuses a write beyond the quota. Call done after the write to count it. Files
// that do not grow may always be written.
func (h *Host) room(ctx context.Context, location mount.Location, size int64) (done func(), err error) {
	used, err := h.used(ctx, location)
	if used == nil || err != nil {
		return func() {}, err
	}
	added, err := growth(ctx, location, size)
	if err != nil {
		return nil, err
	}
	would := mount.Usage{Bytes: used.Bytes + added.Bytes, Files: used.Files + added.Files}
	quota := h.opts.Quota.orDefault()
	switch {
	case added.Bytes > 0 && would.Bytes > quota.Bytes:
		return nil, fault.Errorf(fault.WriteLimit, "with %s the run would keep %d bytes in @%s, and it may keep %d; make other files shorter", location, would.Bytes, location.Mount, quota.Bytes).
			With("bytes", would.Bytes).With("limit", quota.Bytes)
	case added.Files > 0 && would.Files > quota.Files:
		return nil, fault.Errorf(fault.WriteLimit, "with %s the run would keep %d files and folders in @%s, and it may keep %d; write to those that are there", location, would.Files, location.Mount, quota.Files).
			With("files", would.Files).With("limit", quota.Files)
	}
	return func() { *used = would }, nil
}

// growth is the change of usage by a file of so many bytes, including the folders made
// for it.
func growth(ctx context.Context, location mount.Location, size int64) (mount.Usage, error) {
	info, err := location.Stat(ctx, location.Path)
	if err == nil {
		return mount.Usage{Bytes: size - info.Size}, nil
	}
	if fault.CodeOf(err) != fault.NotFound {
		return mount.Usage{}, err
	}
	added := mount.Usage{Bytes: size, Files: 1}
	for dir := path.Dir(location.Path); dir != "."; dir = path.Dir(dir) {
		if _, err := location.Stat(ctx, dir); fault.CodeOf(err) != fault.NotFound {
			break
		}
		added.Files++
	}
	return added, nil
}
