//go:build !linux

package tree

import "io/fs"

// readDir lists a folder. lstat looks at one of its entries by name.
func (f *Folder) readDir(dir string) (entries []fs.DirEntry, lstat func(string) (Stamp, error), done func(), err error) {
	d, err := f.openDir(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	entries, err = d.ReadDir(-1)
	_ = d.Close() // only read
	lstat = func(name string) (Stamp, error) {
		info, err := f.root.Lstat(dir + "/" + name)
		if err != nil {
			return Stamp{}, err
		}
		return stampOf(info)
	}
	return entries, lstat, func() {}, err
}
