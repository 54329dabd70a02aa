package mirror

import (
	"bufio"
	"bytes"
	"io"
	"path"
	"strings"

	"github.com/aibridge/aibridge/vfs/mirror/tree"
)

// IgnoreFile is the name of the file of the patterns that are not mirrored, in lines
// as those of a .gitignore. It is mirrored itself, so it holds at all ends.
const IgnoreFile = ".aibridge-ignore"

// Bounds of an ignore file.
const (
	maxIgnoreFile = 64 << 10 // bytes
	maxPatterns   = 1000
)

// patterns say which paths are not mirrored. An ignored file stays where it is,
// at both ends.
type patterns struct {
	folder string // that they are about, with a slash, "" for the top
	list   []pattern
}

// A pattern is one line of an ignore file.
type pattern struct {
	segments []string // "**" stands for any number of them
	anywhere bool     // one segment, in any folder
	folders  bool     // only folders match
	mirror   bool     // what matches is mirrored after all
}

// parsePatterns reads an ignore file. Lines that make no sense match nothing.
func parsePatterns(folder string, text []byte) *patterns {
	p := &patterns{folder: folder}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() && len(p.list) < maxPatterns {
		line := strings.TrimRight(lines.Text(), " \t\r")
		if line == "" || line[0] == '#' {
			continue
		}
		var one pattern
		line, one.mirror = strings.CutPrefix(line, "!")
		line = strings.TrimPrefix(line, `\`) // before # and !
		line, one.folders = strings.CutSuffix(line, "/")
		one.anywhere = !strings.Contains(line, "/")
		one.segments = strings.Split(strings.TrimPrefix(line, "/"), "/")
		if _, err := path.Match(line, ""); err == nil && line != "" {
			p.list = append(p.list, one)
		}
	}
	return p
}

// match reports whether a path is ignored: itself, or a folder above it.
func (p *patterns) match(at string) bool {
	if p == nil || len(p.list) == 0 {
		return false
	}
	at, inside := strings.CutPrefix(at, p.folder)
	if !inside || at == IgnoreFile {
		return false
	}
	segments := strings.Split(at, "/")
	for n := range segments {
		if p.ignores(segments[:n+1], n+1 < len(segments)) {
			return true
		}
	}
	return false
}

// ignores judges one path or folder: the last pattern that matches counts.
func (p *patterns) ignores(segments []string, folder bool) (ignored bool) {
	for i := range p.list {
		one := &p.list[i]
		if one.mirror == ignored && (folder || !one.folders) && one.match(segments) {
			ignored = !one.mirror
		}
	}
	return ignored
}

func (p *pattern) match(segments []string) bool {
	if p.anywhere {
		segments = segments[len(segments)-1:]
	}
	// Where the last "**" stands, and what it covers so far.
	star, covered := -1, 0
	i, n := 0, 0
	for n < len(segments) {
		switch {
		case i < len(p.segments) && p.segments[i] == "**":
			star, covered = i, n
			i++
		case i < len(p.segments) && matches(p.segments[i], segments[n]):
			i, n = i+1, n+1
		case star >= 0:
			covered++
			i, n = star+1, covered
		default:
			return false
		}
	}
	for i < len(p.segments) && p.segments[i] == "**" {
		if i++; i == len(p.segments) && star != i-1 {
			return false // the entries of a folder are not the folder
		}
	}
	return i == len(p.segments)
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// ignored reports whether a path is not mirrored because of a pattern.
func (e *Engine) ignored(path string) bool { return e.ignore.Load().match(path) }

// readIgnore reads the ignore file if it has changed, and reports whether it
// had.
func (e *Engine) readIgnore() (changed bool) {
	stamp, err := e.folder.Stat(e.o.Ignore)
	if err != nil || stamp.Size > maxIgnoreFile {
		stamp = tree.Stamp{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if stamp == e.ignoreStamp {
		return false
	}
	var text []byte
	if !stamp.Absent() {
		file, opened, err := e.folder.Open(e.o.Ignore)
		if err != nil {
			return false
		}
		defer file.Close()
		if text, err = io.ReadAll(io.LimitReader(file, maxIgnoreFile)); err != nil {
			return false
		}
		stamp = opened
	}
	folder, _ := strings.CutSuffix(e.o.Ignore, IgnoreFile)
	e.ignoreStamp = stamp
	e.ignore.Store(parsePatterns(folder, text))
	return true
}

// todo notes that a path is to be looked at, unless it is ignored.
func (e *Engine) todo(path string) {
	if !e.ignored(path) {
		e.work.add(path)
	}
}
