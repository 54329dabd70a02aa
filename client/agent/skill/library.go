package skill

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// MaxSkills is the number of skill folders that one directory may hold.
const MaxSkills = 1000

// A Library is a directory of skill folders. A folder whose skill.yaml breaks
// keeps its last good version until it is mended or removed. A Library is not
// safe for concurrent use.
type Library struct {
	dir     string
	log     *slog.Logger
	names   []string           // of the directories that were looked into
	folders map[string]*folder // those that have a skill.yaml, by name
	trouble string             // with the directory itself, as last logged
}

// folder is the library's knowledge of one folder.
type folder struct {
	seen   [sha256.Size]byte // hash of the skill.yaml last looked at
	parsed *Skill            // its content; nil if it is broken
	skill  *Skill            // the served one: the last good one, nil if there was none
	wrong  string            // the fault that was logged last
}

// latest is the skill as the folder has it now.
func (f *folder) latest() *Skill {
	if f.parsed != nil {
		return f.parsed
	}
	return f.skill
}

// Changes are the differences between a scan and the one before it. Changed
// are skills that were there with another skill.yaml, in another folder, or
// with or without a SKILL.md.
type Changes struct {
	Added, Changed []*Skill
	Removed        []protocol.SkillID
}

// Empty reports whether nothing changed.
func (c Changes) Empty() bool { return len(c.Added)+len(c.Changed)+len(c.Removed) == 0 }

// NewLibrary makes a library of the folders in dir. Nothing is read before
// [Library.Scan].
func NewLibrary(dir string, log *slog.Logger) *Library {
	return &Library{dir: dir, log: log, folders: map[string]*folder{}}
}

// Skills are the skills of the last scan, sorted by id.
func (l *Library) Skills() []*Skill {
	byID := l.byID()
	skills := make([]*Skill, 0, len(byID))
	for _, s := range byID {
		skills = append(skills, s)
	}
	slices.SortFunc(skills, func(a, b *Skill) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return skills
}

// Scan reads every skill.yaml again and returns the new, changed and removed skills.
// It fails only if the directory itself cannot be read; then nothing counts
// as gone. Faults of single folders are logged, once.
func (l *Library) Scan() (Changes, error) {
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return Changes{}, fmt.Errorf("open the skills directory: %w", err)
	}
	defer root.Close()
	names, err := folderNames(root)
	if err != nil {
		return Changes{}, fmt.Errorf("list the skills directory: %w", err)
	}
	if len(names) > MaxSkills {
		l.complain(&l.trouble, l.dir, fmt.Sprintf("has %d skill folders; only the first %d are served", len(names), MaxSkills))
		names = names[:MaxSkills]
	} else {
		l.trouble = ""
	}
	l.names = names
	before := l.byID()
	for name := range l.folders {
		if !slices.Contains(names, name) {
			delete(l.folders, name)
		}
	}
	for _, name := range names {
		l.look(root, name)
	}
	l.settle()
	return difference(before, l.byID()), nil
}

// folderNames lists the directories that may be skills, sorted. A link to a folder
// within the directory is one of them.
func folderNames(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if (e.IsDir() || e.Type()&fs.ModeSymlink != 0) && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// look reads the skill.yaml of one folder, if its content differs from the last one seen.
func (l *Library) look(parent *os.Root, name string) {
	data, documented, err := readFolder(parent, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoFolder) {
		delete(l.folders, name) // an ordinary file or folder, or no skill any more
		return
	}
	f := l.folders[name]
	if f == nil {
		f = &folder{}
		l.folders[name] = f
	}
	file := filepath.Join(name, ManifestFile)
	if err != nil {
		f.seen, f.parsed = [sha256.Size]byte{}, nil
		l.complain(&f.wrong, file, file+": "+reasonOf(err))
		return
	}
	if hash := sha256.Sum256(data); hash != f.seen {
		f.seen = hash
		if f.parsed, err = parse(filepath.Join(l.dir, name), data); err != nil {
			l.complain(&f.wrong, file, err.Error())
		} else {
			for _, w := range f.parsed.Warnings {
				l.log.Warn("something in a skill.yaml is odd", "problem", w.Error())
			}
		}
	}
	if f.parsed != nil && f.parsed.Documented != documented {
		other := *f.parsed
		other.Documented = documented
		f.parsed = &other
	}
}

// settle decides which folder serves which id: the one that did before, then
// the first by name. A folder that comes too late keeps its last good version
// if that had an id of its own.
func (l *Library) settle() {
	taken := map[protocol.SkillID]string{}
	late := make([]string, 0, len(l.folders))
	for _, name := range slices.Sorted(maps.Keys(l.folders)) {
		f := l.folders[name]
		switch next := f.latest(); {
		case next == nil:
		case f.skill != nil && f.skill.ID == next.ID:
			taken[next.ID] = name
			l.serve(f, next)
		default:
			late = append(late, name)
		}
	}
	for _, name := range late {
		f := l.folders[name]
		next := f.latest()
		holder, there := taken[next.ID]
		if !there {
			taken[next.ID] = name
			l.serve(f, next)
			continue
		}
		file := filepath.Join(name, ManifestFile)
		l.complain(&f.wrong, file, fmt.Sprintf("%s: metadata.id: the skill %q is already served from %s", file, next.ID, holder))
		if f.skill == nil {
			continue
		}
		if _, there := taken[f.skill.ID]; there {
			f.skill = nil
		} else {
			taken[f.skill.ID] = name
		}
	}
}

func (l *Library) serve(f *folder, s *Skill) {
	f.skill = s
	if f.parsed != nil {
		f.wrong = ""
	}
}

var errNoFolder = errors.New("is not a folder")

func readFolder(parent *os.Root, name string) (manifest []byte, documented bool, err error) {
	info, err := parent.Stat(name)
	if err != nil {
		return nil, false, err
	}
	if !info.IsDir() {
		return nil, false, errNoFolder
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	return readLevel1(root)
}

// complain logs a fault unless it was the last one logged about the folder.
func (l *Library) complain(last *string, file, wrong string) {
	if *last == wrong {
		return
	}
	*last = wrong
	l.log.Warn("skill folder has a problem", "file", file, "problem", wrong)
}

func (l *Library) byID() map[protocol.SkillID]*Skill {
	skills := make(map[protocol.SkillID]*Skill, len(l.folders))
	for _, f := range l.folders {
		if f.skill != nil {
			skills[f.skill.ID] = f.skill
		}
	}
	return skills
}

func difference(before, after map[protocol.SkillID]*Skill) Changes {
	var c Changes
	for id, s := range after {
		switch old := before[id]; {
		case old == nil:
			c.Added = append(c.Added, s)
		case old.Hash != s.Hash || old.Dir != s.Dir || old.Documented != s.Documented:
			c.Changed = append(c.Changed, s)
		}
	}
	for id := range before {
		if after[id] == nil {
			c.Removed = append(c.Removed, id)
		}
	}
	byID := func(a, b *Skill) int { return strings.Compare(string(a.ID), string(b.ID)) }
	slices.SortFunc(c.Added, byID)
	slices.SortFunc(c.Changed, byID)
	slices.Sort(c.Removed)
	return c
}
