package topic

import (
	"regexp"
	"strings"
)

// Root begins the topics of the profile.
const Root = "$a2a/v1/"

// Families of topics, behind the root.
const (
	discovery = "discovery"
	requests  = "request"
	replies   = "reply"
	events    = "event"
)

// pool is the third level of requests to a pool, in place of an agent.
const pool = "pool"

// level is the form of identifiers.
var level = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// A name is a topic taken apart: its family, its agent, and the rest.
type name struct {
	family string
	id     string // org/unit/agent, or org/unit/pool/POOL
	rest   string // behind the id, of replies
}

// parse takes a topic apart, or a filter, of which only the rest may have wildcards.
func parse(topic string) (n name, ok bool) {
	rest, ours := strings.CutPrefix(topic, Root)
	levels := strings.Split(rest, "/")
	if !ours || len(levels) < 4 {
		return n, false
	}
	for _, l := range levels[1:4] {
		if !level.MatchString(l) {
			return n, false
		}
	}
	n = name{family: levels[0], id: strings.Join(levels[1:4], "/")}
	switch {
	case n.family == requests && levels[3] == pool && len(levels) == 5 && level.MatchString(levels[4]):
		n.id += "/" + levels[4]
		return n, true
	case n.family == replies && len(levels) > 4:
		n.rest = strings.Join(levels[4:], "/")
		return n, true
	}
	return n, len(levels) == 4 && (n.family == discovery || n.family == requests && levels[3] != pool || n.family == events || n.family == replies)
}

// pooled reports whether an id belongs to a pool, and returns its unit.
func (n *name) pooled() (unit string, ok bool) {
	levels := strings.Split(n.id, "/")
	return levels[0] + "/" + levels[1], len(levels) == 4
}

// unitOf is the organisation and the unit of an agent's id.
func unitOf(id string) string { return id[:strings.LastIndexByte(id, '/')] }

// IsID reports whether a text is an id of an agent, org/unit/agent.
func IsID(id string) bool {
	n, ok := parse(Root + discovery + "/" + id)
	return ok && n.id == id
}
