package mount

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aibridge/aibridge/internal/filename"
	"github.com/aibridge/aibridge/llm/run/fault"
)

// A Name is that of a mount, without the @.
type Name string

// The mounts there are.
const (
	Project Name = "project" // the user's files
	Pkg     Name = "pkg"     // the package; nobody writes to it
	State   Name = "state"   // the run's own
)

// Mounts are those of one run. A nil one does not exist.
type Mounts struct{ Project, Pkg, State FS }

// A Location is a resolved path.
type Location struct {
	FS
	Mount Name
	Path  string // below the mount, clean, "" for the mount itself
}

// String is the path as models write it, "@project/a/b.md".
func (p Location) String() string {
	if p.Path == "" {
		return "@" + string(p.Mount)
	}
	return "@" + string(p.Mount) + "/" + p.Path
}

// Below is a path in the same mount as models write it.
func (p Location) Below(path string) string { return Location{Mount: p.Mount, Path: path}.String() }

// Limits of a path, in bytes.
const (
	MaxPath = 1024
	MaxName = 255
)

// Resolve finds the mount of a path such as @project/a/b.md. Empty names and
// names of a single dot are taken out; anything that could mean a place
// outside, or two things on two systems, is E_SANDBOX_VIOLATION.
func (m *Mounts) Resolve(path string) (Location, error) {
	name, rest, _ := strings.Cut(path, "/")
	p := Location{Mount: Name(strings.TrimPrefix(name, "@"))}
	switch {
	case !strings.HasPrefix(name, "@"):
		return Location{}, violation(path, "paths begin with @project/, @pkg/ or @state/")
	case p.Mount == Project:
		p.FS = m.Project
	case p.Mount == Pkg:
		p.FS = m.Pkg
	case p.Mount == State:
		p.FS = m.State
	}
	if p.FS == nil {
		return Location{}, violation(path, "there is no such mount; paths begin with @project/, @pkg/ or @state/")
	}
	clean, reason := Clean(rest)
	if reason != "" {
		return Location{}, violation(path, reason)
	}
	p.Path = clean
	return p, nil
}

// ResolveWritable is Resolve for writes: a file, and not of
// @pkg.
func (m *Mounts) ResolveWritable(path string) (Location, error) {
	p, err := m.Resolve(path)
	switch {
	case err != nil:
		return Location{}, err
	case p.Mount == Pkg:
		return Location{}, violation(path, "@pkg is read-only; write to @project/ or @state/")
	case p.Path == "":
		return Location{}, violation(path, "it is a mount, not a file")
	}
	return p, nil
}

func violation(path, reason string) *fault.Error {
	if len(path) > MaxPath {
		path = strings.ToValidUTF8(path[:MaxPath], "") + "…"
	}
	return fault.Errorf(fault.Sandbox, "%q is not allowed: %s", path, reason).With("path", path)
}

// Clean takes empty names and single dots out of a relative path, or says why
// it is none that every system can hold below a folder.
func Clean(path string) (clean, reason string) {
	switch {
	case len(path) > MaxPath:
		return "", "the path is too long"
	case !utf8.ValidString(path):
		return "", "the path is not valid UTF-8"
	}
	names := make([]string, 0, 8)
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		if reason := badName(name); reason != "" {
			return "", reason
		}
		names = append(names, name)
	}
	return strings.Join(names, "/"), ""
}

// badName says why a name cannot be that of a file everywhere, "" if it can.
func badName(name string) string {
	switch {
	case name == "..":
		return "paths may not go up with .."
	case len(name) > MaxName:
		return "a name is too long"
	case strings.ContainsAny(name, `\:`):
		return "names may not contain backslashes or colons"
	case strings.ContainsFunc(name, unsafeRune):
		return "names may not contain control or invisible characters"
	case strings.TrimRight(name, ". ") != name:
		return "names may not end in a dot or a space"
	case filename.IsDevice(name):
		return "the name is kept for a device"
	}
	return ""
}

// unsafeRune reports whether a character may not be in a name: it would be
// unseen, or change how the name reads.
func unsafeRune(c rune) bool {
	return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029' || c == unicode.ReplacementChar
}
