package backup

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

// archives is the folder in which a bridge keeps the backups that it makes by itself.
// Other files in it, and those of bridges with other ids, are left alone.
type directory struct{ path, bridge string }

// made is one of these backups.
type made struct {
	name string
	at   time.Time // when it was begun
}

const (
	stampLayout = "20060102T150405Z" // of the time in UTC
	suffix      = ".tar.gz"
	partSuffix  = ".part" // of one that is being written
)

// prefix begins the names of this bridge's backups.
func (d directory) prefix() string { return "aibridge-" + url.PathEscape(d.bridge) + "-" }

func (d directory) name(at time.Time) string {
	return d.prefix() + at.UTC().Format(stampLayout) + suffix
}

// open makes the folder, and removes unfinished backups that a crash has left.
func (d directory) open() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return fmt.Errorf("folder for backups: %w", err)
	}
	entries, err := os.ReadDir(d.path)
	for _, e := range entries {
		whole, part := strings.CutSuffix(e.Name(), partSuffix)
		if _, ok := d.parse(whole); part && ok {
			err = errors.Join(err, os.Remove(filepath.Join(d.path, e.Name())))
		}
	}
	return err
}

// parse takes the name of a backup of this bridge apart.
func (d directory) parse(name string) (m made, ok bool) {
	stamp, ours := strings.CutPrefix(name, d.prefix())
	stamp, whole := strings.CutSuffix(stamp, suffix)
	at, err := time.Parse(stampLayout, stamp)
	return made{name, at}, ours && whole && err == nil
}

// list is the backups of this bridge, the newest first.
func (d directory) list() ([]made, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var all []made
	for _, e := range entries {
		if m, ok := d.parse(e.Name()); ok && e.Type().IsRegular() {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b made) int { return b.at.Compare(a.at) })
	return all, nil
}

// write writes a backup, which only its owner may read, and puts it in place
// when it is whole and on the disk. It returns how large it is.
func (d directory) write(at time.Time, fill func(io.Writer) error) (size int64, err error) {
	path := filepath.Join(d.path, d.name(at))
	file, err := os.OpenFile(path+partSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	counted := &countingWriter{to: file}
	if err = fill(counted); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(path+partSuffix, path)
	}
	if err != nil {
		_ = os.Remove(path + partSuffix)
		return counted.bytes, err
	}
	dir, err := os.Open(d.path)
	if err != nil {
		return counted.bytes, err
	}
	return counted.bytes, errors.Join(syncDir(dir), dir.Close())
}

// prune removes the backups beyond the newest keep, and those older than days
// unless that is 0. The newest stays in any case.
func (d directory) prune(now time.Time, keep, days int) (removed int, err error) {
	all, err := d.list()
	for i, m := range all {
		old := days > 0 && now.Sub(m.at) > time.Duration(days)*24*time.Hour
		if i == 0 || i < keep && !old {
			continue
		}
		switch gone := os.Remove(filepath.Join(d.path, m.name)); {
		case gone == nil:
			removed++
		case !errors.Is(gone, fs.ErrNotExist):
			err = errors.Join(err, gone)
		}
	}
	return removed, err
}
