package mcp

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// pagePrefix is the prefix of cursors, by which invalid ones are detected.
const pagePrefix = "after:"

// page is at most size of the things behind the one that a cursor names, and
// the cursor of the next page. Things are in the order of their names, so that
// one that comes or goes meanwhile spoils nothing.
func page[T any](all []T, name func(T) string, cursor string, size int) (_ []T, next string, err error) {
	if cursor != "" {
		text, err := base64.RawURLEncoding.DecodeString(cursor)
		last, ours := strings.CutPrefix(string(text), pagePrefix)
		if err != nil || !ours {
			return nil, "", protocol.InvalidParam("cursor", "is not one that was given out here")
		}
		at, found := slices.BinarySearchFunc(all, last, func(t T, last string) int { return strings.Compare(name(t), last) })
		if found {
			at++
		}
		all = all[at:]
	}
	if len(all) <= size {
		return all, "", nil
	}
	all = all[:size]
	return all, base64.RawURLEncoding.EncodeToString([]byte(pagePrefix + name(all[size-1]))), nil
}
