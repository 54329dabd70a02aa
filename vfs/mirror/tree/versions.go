package tree

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// versions is the folder of copies that lost conflicts, under their checksums.
const versions = Private + "/versions"

// Keep stores a copy that lost a conflict under its checksum and returns where
// it is, inside the tree. Kept twice, it is the same, and as old as the last.
func (f *Folder) Keep(r io.Reader, checksum string) (string, error) {
	name, err := keptName(checksum)
	if err != nil {
		return "", err
	}
	if err := f.root.MkdirAll(versions, 0o700); err != nil {
		return "", err
	}
	if info, err := f.root.Lstat(name); err == nil && info.Mode().IsRegular() {
		now := time.Now()
		return name, f.root.Chtimes(name, now, now)
	}
	u, err := f.Create()
	if err != nil {
		return "", err
	}
	defer u.Discard()
	if _, err := io.Copy(u, r); err != nil {
		return "", err
	}
	if err := u.file.Sync(); err != nil {
		return "", err
	}
	if err := f.root.Rename(u.name, name); err != nil {
		return "", err
	}
	return name, f.dirs.wait(versions, Private)
}

func keptName(checksum string) (string, error) {
	if strings.ContainsAny(checksum, "/\\.") || checksum == "" {
		return "", BadPathError{"is no checksum"}
	}
	return versions + "/" + checksum, nil
}

// OpenKept opens a kept copy. No copy is fs.ErrNotExist.
func (f *Folder) OpenKept(checksum string) (*os.File, error) {
	name, err := keptName(checksum)
	if err != nil {
		return nil, err
	}
	return f.root.OpenFile(name, os.O_RDONLY|noFollow|nonBlock, 0)
}

// TrimVersions removes kept copies from before a time, and then the oldest until
// the rest takes at most so many bytes; negative is no limit. It returns the paths
// of the removed copies in the tree.
func (f *Folder) TrimVersions(before time.Time, most int64) (removed []string, err error) {
	entries, err := fs.ReadDir(f.root.FS(), versions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept []fs.FileInfo
	total := int64(0)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			kept = append(kept, info)
			total += info.Size()
		}
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, info := range kept {
		if !info.ModTime().Before(before) && (most < 0 || total <= most) {
			break
		}
		name := versions + "/" + info.Name()
		if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		total -= info.Size()
		removed = append(removed, name)
	}
	return removed, nil
}
