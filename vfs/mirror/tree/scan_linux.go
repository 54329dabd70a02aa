package tree

import (
	"golang.org/x/sys/unix"
)

// readDir lists the names in a folder. lstat looks at one of them, from the
// open folder: the path above it is not walked again for each of them. It
// returns the stamp of a file, or that the name is a folder's.
func (f *Folder) readDir(dir string) (names []string, lstat func(string) (s Stamp, folder bool, err error), done func(), err error) {
	d, err := f.openDir(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	names, err = d.Readdirnames(-1)
	if err != nil {
		_ = d.Close() // the first error counts
		return nil, nil, nil, err
	}
	fd := int(d.Fd())
	lstat = func(name string) (Stamp, bool, error) {
		var st unix.Stat_t
		for {
			err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return Stamp{}, false, err
			}
			break
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			return Stamp{}, true, nil
		case unix.S_IFREG:
			return Stamp{Size: st.Size, ModTime: st.Mtim.Nano(), Change: st.Ctim.Nano(), Inode: st.Ino}, false, nil
		}
		return Stamp{}, false, ErrNotRegular
	}
	return names, lstat, func() { _ = d.Close() }, nil // only read
}
