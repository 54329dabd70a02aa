package tree

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/vfs"
)

// A Scan is the content of a tree.
type Scan struct {
	// Files holds every regular file with a good name.
	Files map[string]Stamp
	// Dirs are the folders, "." among them.
	Dirs []string
	// Refused are all other paths, with the reasons why they are not mirrored.
	Refused map[string]string
	// Unread are folders that could not be read: nothing is known about what
	// is below.
	Unread []string
	// Twins says that a name was refused because of a twin.
	Twins bool

	known func(path string) bool
}

// Covers reports whether the scan knows if there is a mirrored file at path: that
// is, not below a folder that could not be read or was refused.
func (s *Scan) Covers(path string) bool {
	for _, dir := range s.Unread {
		if dir == "." || dir == path || strings.HasPrefix(path, dir+"/") {
			return false
		}
	}
	if len(s.Refused) == 0 {
		return true
	}
	for i := range len(path) {
		if path[i] == '/' && s.Refused[path[:i]] != "" {
			return false
		}
	}
	return s.Refused[path] == ""
}

// maxDepth bounds how deep folders are followed.
const maxDepth = vfs.MaxPath / 2

// Scan looks at everything below a folder of the tree, "." for all. room is the
// expected number of files. Of names that some system takes for one, the one that
// is known to be mirrored is admitted, else the first.
func (f *Folder) Scan(below string, room int, known func(path string) bool) *Scan {
	s := &Scan{known: known, Files: make(map[string]Stamp, room), Refused: make(map[string]string)}
	if below != "." {
		if CheckPath(below) != "" || f.plainParents(below+"/") != nil {
			return s
		}
	}
	f.scanDir(s, below, 0)
	return s
}

func (f *Folder) scanDir(s *Scan, dir string, depth int) {
	names, lstat, done, err := f.readDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil || depth > maxDepth {
		s.Unread = append(s.Unread, dir)
		return
	}
	defer done()
	s.Dirs = append(s.Dirs, dir)
	slices.Sort(names)
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	twins := f.twins(prefix, names, s.known)
	for _, name := range names {
		at := prefix + name
		if at == Private {
			continue
		}
		if reason := admit(at, name, twins); reason != "" {
			s.Refused[at] = reason
			s.Twins = s.Twins || twins[Fold(name)] != name
			continue
		}
		stamp, folder, err := lstat(name)
		switch {
		case err == nil && folder:
			f.scanDir(s, at, depth+1)
		case err == nil:
			s.Files[at] = stamp
		case errors.Is(err, ErrNotRegular):
			s.Refused[at] = err.Error()
		case !errors.Is(err, fs.ErrNotExist):
			s.Unread = append(s.Unread, at)
		}
	}
}

// twins is the admitted name of a folder for every folded name.
func (f *Folder) twins(prefix string, names []string, known func(string) bool) map[string]string {
	twins := make(map[string]string, len(names))
	for _, name := range names {
		key := Fold(name)
		held, ok := twins[key]
		if !ok || f.claim(prefix+name, known) > f.claim(prefix+held, known) {
			twins[key] = name
		}
	}
	return twins
}

// claim is the strength of a path's claim to its name: an empty folder has
// none, a folder that is mirrored already the best.
func (f *Folder) claim(path string, known func(string) bool) int {
	if known != nil && known(path) {
		return 2
	}
	info, err := f.root.Lstat(path)
	if err == nil && info.IsDir() && len(f.Scan(path, 0, known).Files) == 0 {
		return 0
	}
	return 1
}

// admit is the reason why a name in a folder is refused, "" if it is not.
func admit(at, name string, twins map[string]string) string {
	if reason := checkFound(at, name); reason != "" {
		return reason
	}
	if twin := twins[Fold(name)]; twin != name {
		return "differs from " + twin + " only in case or in the form of characters"
	}
	return ""
}

// checkFound is CheckPath for a path whose folders have been judged already.
func checkFound(at, name string) string {
	if len(at) > vfs.MaxPath || len(at) == len(name) {
		return CheckPath(at)
	}
	return CheckPath(name)
}

// openDir opens a folder for reading, never a link to one.
func (f *Folder) openDir(dir string) (*os.File, error) {
	return f.root.OpenFile(dir, os.O_RDONLY|noFollow|nonBlock, 0)
}
