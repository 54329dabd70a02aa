package tree

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// readDir lists a folder. lstat looks at one of its entries by name, from the
// open folder: the path above it is not walked again for each of them.
func (f *Folder) readDir(dir string) (entries []fs.DirEntry, lstat func(string) (Stamp, error), done func(), err error) {
	d, err := f.openDir(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	entries, err = d.ReadDir(-1)
	if err != nil {
		_ = d.Close() // the first error counts
		return nil, nil, nil, err
	}
	fd := int(d.Fd())
	lstat = func(name string) (Stamp, error) {
		var st unix.Stat_t
		for {
			err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return Stamp{}, err
			}
			break
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return Stamp{}, ErrNotRegular
		}
		return Stamp{Size: st.Size, ModTime: st.Mtim.Nano(), Change: st.Ctim.Nano(), Inode: st.Ino}, nil
	}
	return entries, lstat, func() { _ = d.Close() }, nil // only read
}
