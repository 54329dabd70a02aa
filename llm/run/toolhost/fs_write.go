package toolhost

import (
	"context"
	"io"
	"math"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/tools"
)

type writeArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	IfMatch string `json:"ifMatchSha256"`
}

// WriteResult is the result of fs.write.
type WriteResult struct {
	OK           bool   `json:"ok"`
	Path         string `json:"path"`
	BytesWritten int    `json:"bytesWritten"`
	SHA256After  string `json:"sha256After"`
}

func (b *bounded) writeTool() *tools.Tool {
	write := tool("fs.write", "Write a file",
		"Write a whole text file, in @project/ or @state/. Folders are made as needed. Change the frontmatter of "+StatePath+" with fs_apply_patch.",
		commands.Write, []tools.Parameter{
			text("path", "File, beginning with @project/ or @state/.", true),
			text("content", "The whole new content.", true),
			text("ifMatchSha256", matchText, false),
		}, b.writeFile)
	write.MaxArguments = b.asJSON()
	return write
}

// asJSON is the greatest length of arguments with the greatest content: a byte takes at
// most six in a JSON string.
func (b *bounded) asJSON() int {
	const besides = 64 << 10
	return int(min(6*min(b.write, math.MaxInt32)+besides, math.MaxInt32))
}

func (b *bounded) writeFile(ctx context.Context, a writeArgs) (any, error) {
	location, err := b.opts.Mounts.ResolveWritable(a.Path)
	if err != nil {
		return nil, err
	}
	if err := b.fits(location, []byte(a.Content)); err != nil {
		return nil, err
	}
	change := func([]byte) ([]byte, error) { return []byte(a.Content), nil }
	_, after, err := b.change(ctx, location, a.IfMatch, false, change)
	if err != nil {
		return nil, err
	}
	return WriteResult{OK: true, Path: location.String(), BytesWritten: len(a.Content), SHA256After: after.String()}, nil
}

// change replaces the content of a file by that of make, which gets the old content,
// nil for none. Changes of one run are made one after the other; a concurrent change by
// another writer is an error. A refused change leaves the file untouched.
func (b *bounded) change(ctx context.Context, location mount.Location, ifMatch string, must bool, make func(before []byte) ([]byte, error)) (before, after mount.Sum, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	match, err := sumOf(ifMatch)
	if err != nil {
		return before, after, err
	}
	guarded, err := b.guarded(location)
	if err != nil {
		return before, after, err
	}
	if !must && !guarded && b.opts.OnWrite == nil {
		data, err := make(nil)
		if err == nil {
			err = b.store(ctx, location, nil, data, mount.WriteOptions{Match: match})
		}
		return before, mount.SumOf(data), err
	}
	old, present, err := b.contents(ctx, location)
	if err != nil {
		return before, after, err
	}
	if !present && must {
		return before, after, fault.Errorf(fault.NotFound, "there is no %s", location).With("path", location.String())
	}
	before = mount.SumOf(old)
	data, err := make(old)
	if err != nil {
		return before, after, err
	}
	after = mount.SumOf(data)
	if match != nil && (!present || *match != before) {
		return before, after, conflict(location, present, before, after)
	}
	if guarded {
		if err := b.guard(old, present, data); err != nil {
			return before, after, err
		}
	}
	if present && before == after {
		return before, after, nil // unchanged
	}
	o := mount.WriteOptions{Match: &before}
	if !present {
		o = mount.WriteOptions{Absent: true}
	}
	return before, after, b.store(ctx, location, old, data, o)
}

// conflict is the error of a write whose precondition is not met.
func conflict(location mount.Location, present bool, before, after mount.Sum) error {
	if !present {
		return fault.Errorf(fault.PreconditionFailed, "%s is not there", location).With("path", location.String())
	}
	e := fault.Errorf(fault.PreconditionFailed, "%s is not what ifMatchSha256 says; read it again", location).
		With("path", location.String()).With("sha256", before.String())
	if before == after {
		e.Message = location.String() + " is not what ifMatchSha256 says; but it is already as this call would make it"
		e = e.With("alreadyApplied", true)
	}
	return e
}

// store writes a file, unless a limit, the quota or OnWrite refuses it.
func (b *bounded) store(ctx context.Context, location mount.Location, before, after []byte, o mount.WriteOptions) error {
	if err := b.fits(location, after); err != nil {
		return err
	}
	done, err := b.room(ctx, location, int64(len(after)))
	if err != nil {
		return err
	}
	if b.opts.OnWrite != nil {
		if err := b.opts.OnWrite(ctx, location, before, after); err != nil {
			return err
		}
	}
	if err := location.Write(ctx, location.Path, after, o); err != nil {
		return err
	}
	done()
	return nil
}

// fits refuses a content that is too large.
func (b *bounded) fits(location mount.Location, after []byte) error {
	if int64(len(after)) <= b.write {
		return nil
	}
	return fault.Errorf(fault.WriteLimit, "%s would have %d bytes, and a call may write %d", location, len(after), b.write).
		With("bytes", len(after)).With("limit", b.write)
}

// contents reads a file before it is changed. The file may be as large as the write limit
// of a call.
func (b *bounded) contents(ctx context.Context, location mount.Location) (text []byte, present bool, err error) {
	file, info, err := location.Open(ctx, location.Path)
	if fault.CodeOf(err) == fault.NotFound {
		if info, err := location.Stat(ctx, location.Path); err == nil && info.Dir {
			return nil, false, fault.Errorf(fault.PreconditionFailed, "%s is a folder", location)
		}
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	text, err = io.ReadAll(io.LimitReader(file, b.write+1))
	if err != nil {
		return nil, false, err
	}
	if int64(len(text)) > b.write {
		return nil, false, fault.Errorf(fault.WriteLimit, "%s has %d bytes, and a call may write %d", location, info.Size, b.write).
			With("bytes", info.Size).With("limit", b.write)
	}
	return text, true, nil
}
