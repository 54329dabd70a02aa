package protocol

import (
	"strings"
	"unicode/utf8"
)

// maxTopic is the longest topic or filter MQTT can carry, in bytes.
const maxTopic = 65535

// sharePrefix begins the filter of a shared subscription, $share/group/filter.
const sharePrefix = "$share/"

// CheckTopic says why a topic name is refused for publishing, or "" if
// it is not (MQTT 5, 4.7).
func CheckTopic(topic string) string {
	if reason := checkTopicText(topic); reason != "" {
		return reason
	}
	if strings.ContainsAny(topic, "+#") {
		return "may not contain wildcards"
	}
	return ""
}

// CheckFilter says why a topic filter is refused for subscribing, or "" if
// it is not. Shared subscriptions are filters too.
func CheckFilter(filter string) string {
	if reason := checkTopicText(filter); reason != "" {
		return reason
	}
	if strings.HasPrefix(filter, sharePrefix) {
		_, inner, ok := SplitShare(filter)
		if !ok {
			return "must be $share/group/filter"
		}
		filter = inner
	}
	for {
		level, rest, more := strings.Cut(filter, "/")
		switch {
		case level == "#" && more:
			return "may have # only as the last level"
		case level != "#" && level != "+" && strings.ContainsAny(level, "+#"):
			return "may have wildcards only as whole levels"
		case !more:
			return ""
		}
		filter = rest
	}
}

func checkTopicText(s string) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > maxTopic:
		return "is longer than 65535 bytes"
	case strings.IndexByte(s, 0) >= 0:
		return "may not contain NUL"
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	}
	return ""
}

// SplitShare takes $share/group/filter apart. Without the prefix, or when it
// is not followed by a group and a filter, ok is false.
func SplitShare(filter string) (group, inner string, ok bool) {
	rest, ok := strings.CutPrefix(filter, sharePrefix)
	if !ok {
		return "", filter, false
	}
	group, inner, ok = strings.Cut(rest, "/")
	if !ok || group == "" || inner == "" || strings.ContainsAny(group, "+#") {
		return "", filter, false
	}
	return group, inner, true
}

// Match reports whether a valid filter, not of a shared subscription, matches
// a topic. Topics that begin with $ are hidden from wildcards in the first
// level. It does not allocate.
func Match(filter, topic string) bool {
	if topic != "" && topic[0] == '$' && filter != "" && (filter[0] == '#' || filter[0] == '+') {
		return false
	}
	for {
		if filter == "#" {
			return true
		}
		want, filterRest, filterMore := strings.Cut(filter, "/")
		have, topicRest, topicMore := strings.Cut(topic, "/")
		switch {
		case want != "+" && want != have:
			return false
		case !topicMore:
			return !filterMore || filterRest == "#" // a/# matches a
		case !filterMore:
			return false
		}
		filter, topic = filterRest, topicRest
	}
}

// Overlap reports whether some topic is matched by both filters, neither of a
// shared subscription. It does not allocate.
func Overlap(a, b string) bool {
	if hidden(a, b) || hidden(b, a) {
		return false
	}
	for {
		if a == "#" || b == "#" {
			return true
		}
		levelA, restA, moreA := strings.Cut(a, "/")
		levelB, restB, moreB := strings.Cut(b, "/")
		switch {
		case levelA != "+" && levelB != "+" && levelA != levelB:
			return false
		case !moreA && !moreB:
			return true
		case !moreA:
			return restB == "#"
		case !moreB:
			return restA == "#"
		}
		a, b = restA, restB
	}
}

// hidden reports whether a begins with $ and b with a wildcard.
func hidden(a, b string) bool {
	return a != "" && a[0] == '$' && b != "" && (b[0] == '#' || b[0] == '+')
}
