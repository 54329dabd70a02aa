package tree

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	noFollow = unix.O_NOFOLLOW
	nonBlock = unix.O_NONBLOCK // a named pipe must not hold us up
)

// identity holds the system's marks of a file beyond size and time.
func identity(info fs.FileInfo) (inode uint64, change int64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino, st.Ctim.Nano()
	}
	return 0, 0
}

func syncFolder(dir *os.File) error { return dir.Sync() }

// swapIn moves an unfinished file to its place. The file there is exchanged for it,
// compared with the stamp, and put back if it differs: so there is no moment in
// which another writer's change could be overwritten.
func (f *Folder) swapIn(from, to string, seen Stamp) error {
	if err := f.unchanged(to, seen); err != nil {
		return err
	}
	source, err := f.root.Open(path.Dir(from))
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := f.root.Open(path.Dir(to))
	if err != nil {
		return err
	}
	defer target.Close()
	move := func(flags uint) error {
		return unix.Renameat2(int(source.Fd()), path.Base(from), int(target.Fd()), path.Base(to), flags)
	}
	if seen.Absent() {
		err := move(unix.RENAME_NOREPLACE)
		switch {
		case errors.Is(err, unix.EEXIST):
			return ErrChanged
		case unsupported(err):
			return f.swapInPlainly(from, to, seen)
		}
		return err
	}
	err = move(unix.RENAME_EXCHANGE)
	switch {
	case errors.Is(err, unix.ENOENT):
		return ErrChanged
	case unsupported(err):
		return f.swapInPlainly(from, to, seen)
	case err != nil:
		return err
	}
	info, err := f.root.Lstat(from)
	if err == nil {
		if found, notRegular := stampOf(info); notRegular == nil && sameFile(found, seen) {
			return f.root.Remove(from)
		}
		err = ErrChanged
	}
	return errors.Join(err, move(unix.RENAME_EXCHANGE))
}

func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP)
}
