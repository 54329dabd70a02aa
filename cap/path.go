package cap

import (
	"strings"
	"unicode"
)

// areaPath takes a path as one inside a Cap's own area, an absolute one
// relative to it. It refuses a path that leads out, with a reason. Such paths
// are names; files are opened by them only below an os.Root.
func areaPath(path string) (inside, reason string) {
	for _, c := range path {
		if c == '\\' || c == ':' || unicode.IsControl(c) {
			return "", "may not contain backslashes, colons or control characters"
		}
	}
	var parts []string
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
		case "..":
			return "", "may not lead out of the Cap's own area"
		default:
			if strings.TrimRight(part, ". ") != part {
				return "", "may not have names that end in a dot or a space"
			}
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "", "names nothing inside the Cap's own area"
	}
	return strings.Join(parts, "/"), ""
}
