package tree

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Private is the folder at the top of a tree that is not mirrored: state,
// unfinished files and kept versions.
const Private = ".aibridge-sync"

// CheckPath is the reason why a path cannot be that of a mirrored file, "" if it
// can: one that a VFS allows ([vfs.CleanPath]) and that is not in the mirror's own
// folder.
func CheckPath(path string) string {
	if _, err := vfs.CleanPath(path); err != nil {
		if reason, ok := protocol.AsError(err).Details["reason"].(string); ok {
			return reason
		}
		return "is not possible"
	}
	if top, _, _ := strings.Cut(path, "/"); strings.EqualFold(top, Private) {
		return "is the mirror's own"
	}
	return ""
}

// Fold is the same for paths that some file system takes for one: those that
// differ only in case or in the form of their characters.
func Fold(path string) string {
	for i := range len(path) {
		if path[i] >= utf8.RuneSelf {
			return norm.NFC.String(cases.Fold().String(path))
		}
	}
	return strings.ToLower(path)
}

// ConflictName is the path of a copy that lost a conflict over path. It names
// whose it was and part of its checksum, so that the same copy always gets the
// same name.
func ConflictName(path, origin, checksum string) string {
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i+1], path[i+1:]
	}
	stem, ext := name, ""
	if i := strings.LastIndexByte(name, '.'); i > 0 && len(name)-i <= 16 {
		stem, ext = name[:i], name[i:]
	}
	mark := " (conflict " + checksum[:min(8, len(checksum))] + ")"
	if origin != "" {
		mark = " (conflict " + clip(cleanOrigin(origin), 40) + " " + checksum[:min(8, len(checksum))] + ")"
	}
	room := min(vfs.MaxSegment, vfs.MaxPath-len(dir)) - len(mark) - len(ext)
	return dir + strings.TrimRight(clip(stem, room), " ") + mark + ext
}

func cleanOrigin(s string) string {
	return strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf && (c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c)) {
			return c
		}
		return '-'
	}, s)
}

// clip shortens a text to so many bytes, between characters.
func clip(s string, room int) string {
	if len(s) <= room {
		return s
	}
	room = max(room, 0)
	for room > 0 && !utf8.RuneStart(s[room]) {
		room--
	}
	return s[:room]
}
