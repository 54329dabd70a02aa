package mount

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aibridge/aibridge/internal/filename"
	"github.com/aibridge/aibridge/llm/run/fault"
)

// A Name is the name of a mount, without the @.
type Name string

// The mounts.
const (
	Project Name = "project" // the user's files
	Pkg     Name = "pkg"     // the package, read-only
	State   Name = "state"   // the run's own files
)

// Mounts are the mounts of one run. A nil one does not exist.
type Mounts struct{ Project, Pkg, State FS }

// A Location is a resolved path.
type Location struct {
	FS
	Mount Name
	Path  string // below the mount, clean, "" for the mount itself
}

// String is the path in the form for models, "@project/a/b.md".
func (p Location) String() string {
	if p.Path == "" {
		return "@" + string(p.Mount)
	}
	return "@" + string(p.Mount) + "/" + p.Path
}

// Below is a path in the same mount in the form for models.
func (p Location) Below(path string) string { return Location{Mount: p.Mount, Path: path}.String() }

// Limits of a path, in bytes.
const (
	MaxPath = 1024
	MaxName = 255
)

// Resolve finds the mount of a path such as @project/a/b.md. Empty names and single
// dots are removed. The error is E_SANDBOX_VIOLATION for a path that could lead
// outside, or whose meaning depends on the system.
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

// ResolveWritable is Resolve for writes. It refuses the root of a mount and @pkg.
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

// Clean removes empty names and single dots from a relative path. The reason, unless
// "", tells why the path is not valid on every system.
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

// badName is the reason why a name is not valid on every system, "" if it is.
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

// unsafeRune reports whether a character is forbidden in names: it is invisible, or
// changes the display of others.
func unsafeRune(c rune) bool {
	return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029' || c == unicode.ReplacementChar
}
