package toolhost

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/tools"
)

type listArgs struct {
	Path string `json:"path"`
}

// ListResult is the result of fs.list. Names of folders end in a slash.
type ListResult struct {
	OK             bool      `json:"ok"`
	Path           string    `json:"path"`
	Entries        *[]string `json:"entries,omitempty"`        // unless truncated
	EntriesPreview *[]string `json:"entriesPreview,omitempty"` // if truncated
	Truncated      bool      `json:"truncated,omitempty"`
	Hint           string    `json:"hint,omitempty"`
}

// maxEntries is the greatest number of names in a result of fs.list.
const maxEntries = 200

func (b *bounded) listTool() *tools.Tool {
	return tool("fs.list", "List a folder",
		"List what is directly in a folder. Names of folders end in a slash; hidden files are left out.",
		commands.Read, []tools.Parameter{text("path", "Folder, such as @project/artifacts or @pkg.", true)}, b.list)
}

func (b *bounded) list(ctx context.Context, a listArgs) (any, error) {
	place, err := b.opts.Mounts.Resolve(a.Path)
	if err != nil {
		return nil, err
	}
	names, count := make([]string, 0, 16), 0
	err = place.List(ctx, place.Path, func(i mount.Info) bool {
		name := path.Base(i.Path)
		if hidden(name) {
			return true
		}
		if i.Dir {
			name += "/"
		}
		if count++; count <= maxEntries {
			names = append(names, name)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	r := ListResult{OK: true, Path: place.String()}
	if count <= maxEntries {
		r.Entries = &names
		return r, nil
	}
	r.EntriesPreview, r.Truncated = &names, true
	r.Hint = fmt.Sprintf("The folder holds %d entries; shown are the first %d. List a folder in it, or find files with fs_search.", count, maxEntries)
	return r, nil
}

// hidden reports whether a name is that of a hidden file.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }
