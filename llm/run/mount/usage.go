package mount

import (
	"context"
	"errors"
	"io/fs"
)

// A Usage is the size and the number of files.
type Usage struct {
	Bytes int64
	Files int // and folders
}

// Usage counts the files of the folder, including hidden ones, except those in the
// folder without ("" for none).
func (f *Folder) Usage(ctx context.Context, without string) (u Usage, err error) {
	err = fs.WalkDir(f.root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil:
			return err
		case path == ".":
			return ctx.Err()
		case path == without && d.IsDir():
			return fs.SkipDir
		}
		u.Files++
		if d.IsDir() {
			return ctx.Err()
		}
		info, err := d.Info()
		if err == nil {
			u.Bytes += info.Size()
		}
		return nil
	})
	if ctx.Err() != nil {
		return u, ctx.Err()
	}
	return u, explain("", err)
}
