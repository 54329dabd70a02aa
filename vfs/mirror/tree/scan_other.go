//go:build !linux

package tree

// readDir lists the names in a folder. lstat looks at one of them: it returns
// the stamp of a file, or that the name is a folder's.
func (f *Folder) readDir(dir string) (names []string, lstat func(string) (s Stamp, folder bool, err error), done func(), err error) {
	d, err := f.openDir(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	names, err = d.Readdirnames(-1)
	_ = d.Close() // only read
	lstat = func(name string) (Stamp, bool, error) {
		info, err := f.root.Lstat(dir + "/" + name)
		if err != nil || info.IsDir() {
			return Stamp{}, err == nil, err
		}
		s, err := stampOf(info)
		return s, false, err
	}
	return names, lstat, func() {}, err
}
