package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
)

// The errors of a [Folder] besides those of the file system.
var (
	// ErrNotRegular reports a link, a folder, a device or the like where a file was
	// expected.
	ErrNotRegular = errors.New("is not a regular file")
	// ErrChanged reports that a file is not any more as it was when the caller
	// looked.
	ErrChanged = errors.New("has changed meanwhile")
)

// A BadPathError refuses a path.
type BadPathError struct{ Reason string }

func (e BadPathError) Error() string { return "path " + e.Reason }

const (
	unfinished = Private + "/tmp"
	fileMode   = 0o644
	folderMode = 0o755
)

// A Stamp tells states of a file apart without reading it. The zero Stamp
// stands for no file.
type Stamp struct {
	Size    int64
	ModTime int64 // Unix nanoseconds
	Change  int64 // time of the last change of content or name, Unix nanoseconds; 0 where unknown
	Inode   uint64
}

// Absent reports that there was no file.
func (s Stamp) Absent() bool { return s == Stamp{} }

// A Folder is the local end of a mirror. Its methods may be called by many
// goroutines; callers keep two of them from changing the same path at a time.
type Folder struct {
	dir  string
	root *os.Root
	dirs dirSyncer
}

// Open opens a folder, which is made if it is not there.
func Open(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, root: root}
	f.dirs.sync = f.syncDir
	if err := f.prepare(); err != nil {
		_ = root.Close() // the first error counts
		return nil, err
	}
	return f, nil
}

func (f *Folder) prepare() error {
	if info, err := f.root.Lstat(Private); err == nil && !info.IsDir() {
		return fmt.Errorf("%s %w", Private, errors.New("is not a folder"))
	}
	return f.root.MkdirAll(unfinished, 0o700)
}

// RemoveUnfinished removes the unfinished files of an earlier run. Nothing else may
// use the folder meanwhile.
func (f *Folder) RemoveUnfinished() error {
	if err := f.root.RemoveAll(unfinished); err != nil {
		return err
	}
	return f.root.Mkdir(unfinished, 0o700)
}

// Dir is the path of the folder.
func (f *Folder) Dir() string { return f.dir }

// Root gives access to the folder's files, the private ones too.
func (f *Folder) Root() *os.Root { return f.root }

// Close lets go of the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Stat returns the stamp of a file, the zero Stamp if there is none (a folder is
// none), and ErrNotRegular for links, devices and the like.
func (f *Folder) Stat(name string) (Stamp, error) {
	if reason := CheckPath(name); reason != "" {
		return Stamp{}, BadPathError{reason}
	}
	if err := f.plainParents(name); err != nil {
		return Stamp{}, absentIfNone(err)
	}
	info, err := f.root.Lstat(name)
	if err != nil {
		return Stamp{}, absentIfNone(err)
	}
	if info.IsDir() {
		return Stamp{}, nil
	}
	return stampOf(info)
}

func absentIfNone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func stampOf(info fs.FileInfo) (Stamp, error) {
	if !info.Mode().IsRegular() {
		return Stamp{}, ErrNotRegular
	}
	s := Stamp{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
	s.Inode, s.Change = identity(info)
	return s, nil
}

// An ObstacleError says that a file cannot exist, because of another file or folder
// in its way. So it does not exist: the error is [fs.ErrNotExist] too.
type ObstacleError struct {
	Path     string // of the file
	Obstacle string // a file where a folder is needed, or Path for a folder where the file is to be
}

func (e *ObstacleError) Error() string {
	if e.Obstacle == e.Path {
		return fmt.Sprintf("%q cannot be a file: a folder %q stands there", e.Path, e.Path+"/")
	}
	return fmt.Sprintf("%q needs a folder where the file %q stands", e.Path, e.Obstacle)
}

func (e *ObstacleError) Unwrap() error { return fs.ErrNotExist }

// plainParents refuses paths through anything but real folders.
func (f *Folder) plainParents(name string) error {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		info, err := f.root.Lstat(name[:i])
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			return &ObstacleError{name, name[:i]}
		}
		if !info.IsDir() {
			return fmt.Errorf("folder of the file: %w", ErrNotRegular)
		}
	}
	return nil
}

// Open opens a file for reading and returns its stamp. No file is
// fs.ErrNotExist.
func (f *Folder) Open(name string) (*os.File, Stamp, error) {
	if reason := CheckPath(name); reason != "" {
		return nil, Stamp{}, BadPathError{reason}
	}
	if err := f.plainParents(name); err != nil {
		return nil, Stamp{}, err
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|noFollow|nonBlock, 0)
	if err != nil {
		return nil, Stamp{}, err
	}
	info, err := file.Stat()
	if err == nil {
		var s Stamp
		if s, err = stampOf(info); err == nil {
			return file, s, nil
		}
	}
	_ = file.Close() // the first error counts
	return nil, Stamp{}, err
}

// makeParents makes the folders above a file and lists those in which a new
// one stands.
func (f *Folder) makeParents(name string) (made []string, err error) {
	err = f.plainParents(name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		switch err := f.root.Mkdir(name[:i], folderMode); {
		case err == nil:
			made = append(made, path.Dir(name[:i]))
		case !errors.Is(err, fs.ErrExist):
			return made, err
		}
	}
	return made, f.plainParents(name)
}

// Remove removes the file whose stamp was seen, and the folders that are empty
// then. If another is there, the error is ErrChanged, and that one stays.
func (f *Folder) Remove(name string, seen Stamp) error {
	if reason := CheckPath(name); reason != "" {
		return BadPathError{reason}
	}
	if err := f.plainParents(name); err != nil {
		return absentIfNone(err)
	}
	if err := f.swapOut(name, seen); err != nil {
		return err
	}
	if err := f.dirs.wait(path.Dir(name)); err != nil {
		return err
	}
	dir := path.Dir(name)
	for dir != "." && f.root.Remove(dir) == nil { // which fails when it is not empty
		dir = path.Dir(dir)
	}
	return nil
}

// takeAway moves the file at name among the unfinished ones, to look at it in
// peace.
func (f *Folder) takeAway(name string) (aside string, s Stamp, err error) {
	aside = unfinished + "/" + randomName()
	if err := f.root.Rename(name, aside); err != nil {
		return "", Stamp{}, err
	}
	info, err := f.root.Lstat(aside)
	if err != nil {
		return "", Stamp{}, err
	}
	s, err = stampOf(info)
	if err != nil {
		_ = f.putBack(aside, name) // the caller learns the first error
	}
	return aside, s, err
}

// putBack undoes takeAway, unless a newer file is there.
func (f *Folder) putBack(aside, name string) error {
	if err := f.root.Link(aside, name); err != nil {
		return err
	}
	return f.root.Remove(aside)
}

// swapOut removes a file if it is the one that was seen.
func (f *Folder) swapOut(name string, seen Stamp) error {
	if err := f.unchanged(name, seen); err != nil || seen.Absent() {
		return err
	}
	aside, found, err := f.takeAway(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrChanged
	}
	if err != nil {
		return err
	}
	if !sameFile(found, seen) {
		return errors.Join(ErrChanged, f.putBack(aside, name))
	}
	return f.root.Remove(aside)
}

// unchanged looks before anything is moved, so that of the moment in which a
// change could come in between next to nothing is left.
func (f *Folder) unchanged(name string, seen Stamp) error {
	info, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if seen.Absent() {
			return nil
		}
		return ErrChanged
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &ObstacleError{name, name}
	}
	found, err := stampOf(info)
	if err != nil {
		return err
	}
	if !sameFile(found, seen) {
		return ErrChanged
	}
	return nil
}

// RemoveEmpty removes a folder in which there is nothing but empty folders. If
// there is more, it fails.
func (f *Folder) RemoveEmpty(name string) error {
	if reason := CheckPath(name); reason != "" {
		return BadPathError{reason}
	}
	if err := f.plainParents(name + "/"); err != nil {
		return absentIfNone(err)
	}
	found := f.Scan(name, 0, nil)
	for _, dir := range slices.Backward(found.Dirs) { // subfolders come after their parent
		if err := f.root.Remove(dir); err != nil {
			return err
		}
	}
	return f.dirs.wait(path.Dir(name))
}

// sameFile compares stamps of which one was taken before a move, which
// touches the time of change.
func sameFile(a, b Stamp) bool {
	a.Change, b.Change = 0, 0
	return a == b
}

// syncDir makes durable which files a folder holds.
func (f *Folder) syncDir(name string) error {
	dir, err := f.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed since; that is durable with the folder above
	}
	if err != nil {
		return err
	}
	err = syncFolder(dir)
	return errors.Join(err, dir.Close())
}

// StampOf returns the stamp of an open file.
func StampOf(file interface{ Stat() (fs.FileInfo, error) }) (Stamp, error) {
	info, err := file.Stat()
	if err != nil {
		return Stamp{}, err
	}
	return stampOf(info)
}
