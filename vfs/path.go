package vfs

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/aibridge/aibridge/internal/filename"
	"github.com/aibridge/aibridge/protocol"
)

// Limits of a path, in bytes.
const (
	MaxPath    = 1024
	MaxSegment = 255 // the limit of file systems for one name
)

// CleanPath returns a path as it is, or refuses it with 1001. It mends
// nothing: a path is one that every system can hold as a file below a folder,
// or it is none. That is: relative, names joined by single slashes, none of
// them "." or "..", in UTF-8 and in Unicode's composed form (NFC), without
// control characters, backslashes, colons and characters that turn the
// direction of text; no name ends in a dot or a space or is one that Windows
// keeps for a device; a name has at most [MaxSegment] bytes, a path
// [MaxPath].
//
// Besides, no two paths of a group may be the same to some system: paths that
// differ in case only ("twins"), and a file where another path needs a folder.
// Those are refused with 3002 when they are put.
func CleanPath(path string) (string, error) {
	if reason := badPath(path); reason != "" {
		return "", protocol.InvalidParam("path", reason)
	}
	return path, nil
}

// Relative is a path that a caller gave, as the store has it: from the root of
// its group, whether or not it begins with a slash.
func Relative(path string) string { return strings.TrimPrefix(path, "/") }

// cleanPrefix checks the prefix of a list: it may be any beginning of a path.
func cleanPrefix(prefix string) error {
	if len(prefix) > MaxPath || !utf8.ValidString(prefix) {
		return protocol.InvalidParam("path", "is no beginning of a path")
	}
	return nil
}

func badPath(path string) string {
	switch {
	case path == "":
		return "is empty"
	case len(path) > MaxPath:
		return "has more than 1024 bytes"
	case !utf8.ValidString(path):
		return "is not valid UTF-8"
	case path[0] == '/':
		return "must be relative"
	case !norm.NFC.IsNormalString(path):
		return "is not in Unicode's composed form (NFC)"
	}
	for _, c := range path {
		switch {
		case c == '\\' || c == ':':
			return "may not contain backslashes or colons"
		case c == 0 || unicode.IsControl(c):
			return "may not contain control characters"
		case misleading(c):
			return "may not contain invisible characters that turn or join text"
		}
	}
	for name := range strings.SplitSeq(path, "/") {
		if reason := badName(name); reason != "" {
			return reason
		}
	}
	return ""
}

// misleading reports whether a character makes a path look like another one,
// or is none.
func misleading(c rune) bool {
	return protocol.Misleading(c) || c == unicode.ReplacementChar || c&0xfffe == 0xfffe || c >= '\ufdd0' && c <= '\ufdef'
}

func badName(name string) string {
	switch {
	case name == "":
		return "has an empty name, at its end or between slashes"
	case name == "." || name == "..":
		return "may not have . or .. as a name"
	case len(name) > MaxSegment:
		return "has a name of more than 255 bytes"
	case strings.TrimRight(name, ". ") != name:
		return "has a name that ends in a dot or a space"
	case filename.IsDevice(name):
		return "has a name that is kept for a device"
	}
	return ""
}

// foldPath is the same for paths that some system takes for one.
func foldPath(path string) string {
	plain := true
	for i := range len(path) {
		if c := path[i]; c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' {
			plain = false
			break
		}
	}
	if plain {
		return path
	}
	return norm.NFC.String(cases.Fold().String(path))
}
