package vfs

import (
	"context"
	"strings"
)

// afterFolder comes after everything that a path below a folder may have behind
// the slash.
const afterFolder = "\U0010FFFF"

// A browsing gathers the direct entries of a folder: its files and subfolders.
type browsing struct {
	prefix  string // path of the folder with a slash behind it, "" for the whole group
	limit   int
	folders []string
	files   []File
	cursor  string // the last path that was looked at; a folder ends in a slash
}

func (b *browsing) full() bool { return len(b.folders)+len(b.files) == b.limit }

// take looks at files that come after the cursor, in order. It stops when the
// page is full.
func (b *browsing) take(files []File) (all bool) {
	for _, f := range files {
		name, _, below := strings.Cut(f.Path[len(b.prefix):], "/")
		folder := b.prefix + name + "/"
		if below && b.cursor == folder {
			continue
		}
		if b.full() {
			return false
		}
		if b.cursor = f.Path; below {
			b.cursor = folder
			b.folders = append(b.folders, strings.TrimSuffix(folder, "/"))
			continue
		}
		b.files = append(b.files, f)
	}
	return true
}

// A BrowsedPage is a page of the direct content of a folder.
type BrowsedPage struct {
	Folders []string // paths
	Files   []File
	Next    string // where the next page begins, "" at the end
}

// Browse lists the direct content of a folder, a page at a time.
func Browse(ctx context.Context, folder Located, cursor string, limit int) (BrowsedPage, error) {
	b, next, err := browse(ctx, folder.Files, folder.Group, folder.Path, cursor, limit, false)
	if err != nil {
		return BrowsedPage{}, err
	}
	return BrowsedPage{b.folders, b.files, next}, nil
}

// browse lists the direct entries of a folder, one page of them, in the order of paths.
// It skips the contents of subfolders, so a page costs no more than a list for each of
// them.
func browse(ctx context.Context, files Files, group, path, cursor string, limit int, deleted bool) (*browsing, string, error) {
	b := &browsing{limit: limit, cursor: cursor}
	if b.limit <= 0 {
		b.limit = DefaultLimit
	}
	if path = strings.TrimSuffix(path, "/"); path != "" {
		if _, err := CleanPath(path); err != nil {
			return nil, "", err
		}
		b.prefix = path + "/"
	}
	for {
		from := b.cursor
		if strings.HasSuffix(from, "/") {
			from += afterFolder
		}
		found, next, err := files.List(ctx, group, b.prefix, from, b.limit, deleted)
		if err != nil {
			return nil, "", err
		}
		switch all := b.take(found); {
		case !all:
			return b, b.cursor, nil
		case next == "":
			return b, "", nil
		}
	}
}
