package skill

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/aibridge/aibridge/protocol"
)

// Limits of the files that are read from a folder besides its skill.yaml.
const (
	MaxDocument  = 256 << 10 // bytes of SKILL.md or one resource, so that it fits an envelope
	MaxResources = 1000      // files listed
)

// A Skill is a skill folder with the content of its skill.yaml when it was read. It
// is immutable; a folder that changes becomes another Skill.
type Skill struct {
	*Manifest
	Dir        string            // absolute path of the folder
	Hash       [sha256.Size]byte // of the skill.yaml
	Documented bool              // there is a SKILL.md
}

// Load reads the skill.yaml of one folder.
func Load(dir string) (*Skill, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, documented, err := readLevel1(root)
	if err != nil {
		return nil, &Problem{File: filepath.Join(filepath.Base(dir), ManifestFile), Reason: reasonOf(err)}
	}
	s, err := parse(dir, data)
	if err != nil {
		return nil, err
	}
	s.Documented = documented
	return s, nil
}

func parse(dir string, data []byte) (*Skill, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	m, err := Parse(filepath.Join(filepath.Base(dir), ManifestFile), data)
	if err != nil {
		return nil, err
	}
	return &Skill{Manifest: m, Dir: absolute, Hash: sha256.Sum256(data)}, nil
}

// readLevel1 reads the skill.yaml and reports whether there is a SKILL.md.
func readLevel1(root *os.Root) (manifest []byte, documented bool, err error) {
	manifest, err = readFile(root, ManifestFile, MaxManifest)
	return manifest, isFile(root, DocumentFile), err
}

func isFile(root *os.Root, name string) bool {
	info, err := root.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

var (
	errTooLarge   = errors.New("is too large")
	errNotRegular = errors.New("is not a regular file")
)

// readFile reads a regular file of at most limit bytes. It never blocks on a pipe
// in a file's place.
func readFile(root *os.Root, name string, limit int) ([]byte, error) {
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		return nil, fmt.Errorf("%w: more than %d KiB", errTooLarge, limit>>10)
	}
	return data, err
}

// reasonOf is an error without the path and system call in front, which its reader
// knows already.
func reasonOf(err error) string {
	var at *fs.PathError
	if !errors.As(err, &at) {
		return err.Error()
	}
	if strings.Contains(at.Err.Error(), "escapes") { // the error of os.Root has no name
		return "is a link that leads outside"
	}
	return at.Err.Error()
}

// A Document is a text or resource of a skill, level 2 or 3.
type Document struct {
	Path string // "SKILL.md", "resources/stations.json"
	Data []byte
	Hash [sha256.Size]byte
}

// Read reads SKILL.md or a file under resources/, by its path with slashes.
// Other names are refused with a protocol error, those that lead out of the
// folder too.
func (s *Skill) Read(name string) (*Document, error) {
	if name != DocumentFile && (!fs.ValidPath(name) || !strings.HasPrefix(name, ResourceDir+"/")) {
		return nil, protocol.InvalidParam("path", fmt.Sprintf("must be %s or a file under %s/", DocumentFile, ResourceDir))
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, protocol.Wrap(protocol.TargetUnavailable, err, "the skill's folder cannot be read")
	}
	defer root.Close()
	data, err := readFile(root, name, MaxDocument)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, protocol.Errorf(protocol.NotFound, "the skill %s has no %s", s.ID, name)
	case err != nil:
		return nil, protocol.Wrap(protocol.TargetUnavailable, err, name+" "+reasonOf(err))
	}
	return &Document{Path: name, Data: data, Hash: sha256.Sum256(data)}, nil
}

// Resources lists the files under resources/, sorted by path, up to
// [MaxResources] of them.
func (s *Skill) Resources() ([]string, error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, protocol.Wrap(protocol.TargetUnavailable, err, "the skill's folder cannot be read")
	}
	defer root.Close()
	names := []string{}
	seen := 0
	err = fs.WalkDir(root.FS(), ResourceDir, func(path string, entry fs.DirEntry, err error) error {
		seen++
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case len(names) == MaxResources || seen == 10*MaxResources:
			return fs.SkipAll
		case entry.Type().IsRegular():
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		return nil, protocol.Wrap(protocol.TargetUnavailable, err, "the skill's resources cannot be listed")
	}
	return names, nil
}
