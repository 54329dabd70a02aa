// Package topic knows the grammar of MQTT topic names and filters and keeps
// trees of both: [Filters] finds the filters that cover a name, [Names] the
// names that a filter covers.
package topic

import "strings"

const sharePrefix = "$share/"

// ValidName reports whether a topic name may be published to: it has at least
// one character and no wildcards [MQTT-3.3.2-2] [MQTT-4.7.1-1] [MQTT-4.7.3-1].
func ValidName[T string | []byte](name T) bool {
	for i := range len(name) {
		if c := name[i]; c == '+' || c == '#' || c == 0 {
			return false
		}
	}
	return len(name) > 0 && len(name) <= 65535
}

// ValidFilter reports whether a filter is well formed: # stands alone in the
// last level [MQTT-4.7.1-1], + fills a level [MQTT-4.7.1-2], and what begins
// with $share/ names a group and a filter [MQTT-4.8.2-1] [MQTT-4.8.2-2].
func ValidFilter(filter string) bool {
	if len(filter) == 0 || len(filter) > 65535 {
		return false
	}
	if strings.HasPrefix(filter, sharePrefix) {
		group, inner, ok := Shared(filter)
		if !ok || strings.ContainsAny(group, "+#") {
			return false
		}
		filter = inner
	}
	for {
		level, rest, more := strings.Cut(filter, "/")
		if len(level) > 1 && strings.ContainsAny(level, "+#\x00") || level == "#" && more {
			return false
		}
		if !more {
			return true
		}
		filter = rest
	}
}

// DeeperThan reports whether a topic name, or a filter, has more levels than
// there may be. Nearly all are too short for that.
func DeeperThan[T string | []byte](most int, path T) bool {
	if len(path) < most {
		return false
	}
	levels := 1
	for i := range len(path) {
		if path[i] == '/' {
			levels++
		}
	}
	return levels > most
}

// Shared splits $share/group/filter; ok is false for any other filter and for
// a malformed one.
func Shared(filter string) (group, inner string, ok bool) {
	rest, shared := strings.CutPrefix(filter, sharePrefix)
	if !shared {
		return "", "", false
	}
	group, inner, _ = strings.Cut(rest, "/")
	return group, inner, group != "" && inner != ""
}

// IsShared reports whether the filter asks for a shared subscription.
func IsShared(filter string) bool { return strings.HasPrefix(filter, sharePrefix) }

// exclusivePrefix begins filters that one session has alone, as in EMQX.
const exclusivePrefix = "$exclusive/"

// Exclusive splits $exclusive/filter; ok is false for any other filter.
func Exclusive(filter string) (inner string, ok bool) {
	inner, ok = strings.CutPrefix(filter, exclusivePrefix)
	return inner, ok && inner != ""
}

// Inner is the filter that topics are held against: without $share/group/ or
// $exclusive/ before it.
func Inner(filter string) string {
	if _, inner, ok := Shared(filter); ok {
		return inner
	}
	if inner, ok := Exclusive(filter); ok {
		return inner
	}
	return filter
}

// HasWildcard reports whether a filter covers more than one name.
func HasWildcard(filter string) bool { return strings.ContainsAny(filter, "+#") }

// hidden: wildcards in front do not cover names that begin with $
// [MQTT-4.7.2-1].
func hidden(name string) bool { return name != "" && name[0] == '$' }

// Match reports whether the filter covers the name.
func Match(filter, name string) bool {
	if hidden(name) && filter != "" && (filter[0] == '+' || filter[0] == '#') {
		return false
	}
	for {
		level, filterRest, moreFilter := strings.Cut(filter, "/")
		if level == "#" {
			return true
		}
		part, nameRest, moreName := strings.Cut(name, "/")
		if level != "+" && level != part {
			return false
		}
		switch {
		case !moreFilter && !moreName:
			return true
		case !moreName:
			return filterRest == "#" // a/# covers a
		case !moreFilter:
			return false
		}
		filter, name = filterRest, nameRest
	}
}

// Overlap reports whether a name may fit two filters, other than shared ones.
func Overlap(a, b string) bool {
	for {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		switch {
		case x == "#" || y == "#":
			return true
		case x != y && x != "+" && y != "+":
			return false
		case !moreA || !moreB: // sport/# has sport
			return moreA == moreB || moreA && restA == "#" || moreB && restB == "#"
		}
		a, b = restA, restB
	}
}
