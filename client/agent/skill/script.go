package skill

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aibridge/aibridge/protocol"
)

// A Script is the file that runs a capability.
type Script struct {
	Path  string // relative to the folder, "scripts/celsius_to_fahrenheit.sh"
	Shell bool   // to be given to a shell, because it does not name its interpreter itself
}

// Script finds the script of a declared capability: scripts/<id>, or
// scripts/<id>.sh. The first must be executable. The second need not be: then,
// or without a #! line, it is run by a shell. Failures are 4006 for the caller,
// with the remedy.
func (s *Skill) Script(id protocol.CapabilityID) (Script, error) {
	if s.Capability(id) == nil {
		return Script{}, protocol.Errorf(protocol.NotFound, "the skill %s has no capability %s", s.ID, id)
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return Script{}, protocol.Wrap(protocol.TargetUnavailable, err, "the skill's folder cannot be read")
	}
	defer root.Close()
	plain := filepath.Join(ScriptDir, string(id))
	for _, path := range []string{plain, plain + ".sh"} {
		info, err := root.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !info.Mode().IsRegular() {
			err = errNotRegular
		}
		if err != nil {
			return Script{}, protocol.Wrap(protocol.TargetUnavailable, err, path+" "+reasonOf(err))
		}
		executable := info.Mode().Perm()&0o111 != 0
		if path == plain && !executable {
			return Script{}, protocol.Errorf(protocol.TargetUnavailable, "%s is not executable: chmod +x it, or name it %s.sh", path, path)
		}
		direct := path == plain || executable && namesInterpreter(root, path)
		return Script{Path: path, Shell: !direct}, nil
	}
	return Script{}, protocol.Errorf(protocol.TargetUnavailable, "the capability %s has no script: neither %s nor %s.sh exists", id, plain, plain)
}

func namesInterpreter(root *os.Root, path string) bool {
	f, err := root.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [2]byte
	n, _ := f.Read(head[:])
	return string(head[:n]) == "#!"
}
