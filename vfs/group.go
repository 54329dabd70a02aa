package vfs

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/aibridge/aibridge/internal/filename"
	"github.com/aibridge/aibridge/protocol"
)

// MirrorGroup is the group of files that is reserved for the mirror of Caps: the paths
// below a Cap's folder ([MirrorPath]) are its own. Only the bridge writes there, except
// below disk/.
const MirrorGroup = "cap"

// CheckGroup refuses with 1001 a text that cannot be the name of a group of files:
// it is one level of a topic and one segment of a URL.
func CheckGroup(group string) error {
	if reason := protocol.GroupName("").Rule().Check(group); reason != "" {
		return protocol.InvalidParam("group_name", reason)
	}
	if group == "." || group == ".." {
		return protocol.InvalidParam("group_name", "may not be . or ..")
	}
	return nil
}

// MirrorFolder is the name of a Cap's folder in the mirror: its id. Characters
// that an id may contain, but a path may not, stand as %XX; an id that gets
// too long that way stands as %% and its SHA-256.
func MirrorFolder(id protocol.CapID) string {
	name := string(id)
	if badName(name) == "" && badPath(name) == "" && !strings.Contains(name, "%") {
		return name
	}
	composed := norm.NFC.IsNormalString(name)
	var b strings.Builder
	for i, c := range name {
		last := i+utf8.RuneLen(c) == len(name)
		if composed && c >= utf8.RuneSelf && !misleading(c) && !unicode.IsControl(c) ||
			c == '-' || c == '_' || (c == '.' || c == ' ') && !last && i > 0 ||
			c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)) && (i > 0 || !filename.IsDevice(name)) {
			b.WriteRune(c)
			continue
		}
		for _, octet := range []byte(string(c)) {
			fmt.Fprintf(&b, "%%%02X", octet)
		}
	}
	if b.Len() > MaxSegment {
		return fmt.Sprintf("%%%%%x", sha256.Sum256([]byte(name)))
	}
	return b.String()
}

// unescape is the reverse of the %XX of [MirrorFolder].
func unescape(folder string) (string, bool) {
	id, err := url.PathUnescape(folder)
	return id, err == nil
}
