package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A backupFolder is where a bridge keeps the backups that it makes by itself.
// Other files in it, and those of bridges with other ids, are left alone.
type backupFolder struct{ path, bridge string }

// A madeBackup is one of them.
type madeBackup struct {
	name string
	at   time.Time // when it was begun
}

const (
	backupStamp  = "20060102T150405Z" // of the time in UTC
	backupSuffix = ".tar.gz"
	backupPart   = ".part" // of one that is being written
)

// prefix begins the names of this bridge's backups.
func (f backupFolder) prefix() string { return "aibridge-" + url.PathEscape(f.bridge) + "-" }

func (f backupFolder) name(at time.Time) string {
	return f.prefix() + at.UTC().Format(backupStamp) + backupSuffix
}

// open makes the folder, and removes what a crash has left of backups.
func (f backupFolder) open() error {
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return fmt.Errorf("folder for backups: %w", err)
	}
	entries, err := os.ReadDir(f.path)
	for _, e := range entries {
		whole, part := strings.CutSuffix(e.Name(), backupPart)
		if _, ok := f.parse(whole); part && ok {
			err = errors.Join(err, os.Remove(filepath.Join(f.path, e.Name())))
		}
	}
	return err
}

// parse takes the name of a backup of this bridge apart.
func (f backupFolder) parse(name string) (made madeBackup, ok bool) {
	stamp, ours := strings.CutPrefix(name, f.prefix())
	stamp, whole := strings.CutSuffix(stamp, backupSuffix)
	at, err := time.Parse(backupStamp, stamp)
	return madeBackup{name, at}, ours && whole && err == nil
}

// list is the backups of this bridge, the newest first.
func (f backupFolder) list() ([]madeBackup, error) {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	var all []madeBackup
	for _, e := range entries {
		if made, ok := f.parse(e.Name()); ok && e.Type().IsRegular() {
			all = append(all, made)
		}
	}
	slices.SortFunc(all, func(a, b madeBackup) int { return b.at.Compare(a.at) })
	return all, nil
}

// write writes a backup, which only its owner may read, and puts it in place
// when it is whole and on the disk. It returns how large it is.
func (f backupFolder) write(at time.Time, fill func(io.Writer) error) (size int64, err error) {
	path := filepath.Join(f.path, f.name(at))
	file, err := os.OpenFile(path+backupPart, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	counted := &countingWriter{to: file}
	if err = fill(counted); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(path+backupPart, path)
	}
	if err != nil {
		_ = os.Remove(path + backupPart)
		return counted.bytes, err
	}
	dir, err := os.Open(f.path)
	if err != nil {
		return counted.bytes, err
	}
	return counted.bytes, errors.Join(syncDir(dir), dir.Close())
}

// prune removes the backups beyond the newest keep, and those older than days
// unless that is 0. The newest stays in any case.
func (f backupFolder) prune(now time.Time, keep, days int) (removed int, err error) {
	all, err := f.list()
	for i, made := range all {
		old := days > 0 && now.Sub(made.at) > time.Duration(days)*24*time.Hour
		if i == 0 || i < keep && !old {
			continue
		}
		switch gone := os.Remove(filepath.Join(f.path, made.name)); {
		case gone == nil:
			removed++
		case !errors.Is(gone, fs.ErrNotExist):
			err = errors.Join(err, gone)
		}
	}
	return removed, err
}
