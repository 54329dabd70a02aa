package broker

import "strings"

// matches reports whether a topic filter covers a topic name. As MQTT asks,
// wildcards in front do not cover topics that begin with $ [MQTT-4.7.2-1],
// and a/# covers a.
func matches(filter, topic string) bool {
	if strings.HasPrefix(topic, "$") && (strings.HasPrefix(filter, "+") || strings.HasPrefix(filter, "#")) {
		return false
	}
	for {
		level, filterRest, moreFilter := strings.Cut(filter, "/")
		if level == "#" {
			return true
		}
		name, topicRest, moreTopic := strings.Cut(topic, "/")
		if level != "+" && level != name {
			return false
		}
		switch {
		case !moreFilter && !moreTopic:
			return true
		case !moreTopic:
			return filterRest == "#"
		case !moreFilter:
			return false
		}
		filter, topic = filterRest, topicRest
	}
}

// unshared returns F for $share/g/F and any other filter as it is.
func unshared(filter string) string {
	rest, shared := strings.CutPrefix(filter, "$share/")
	if !shared {
		return filter
	}
	_, inner, ok := strings.Cut(rest, "/")
	if !ok {
		return filter // malformed; the engine refuses it
	}
	return inner
}
