package mqtt

import "strings"

// Root begins all topics of the transport.
const Root = "$mcp-"

// A family is the purpose of topics.
type family string

// Families of topics, by how they begin.
const (
	control          family = "$mcp-server/"
	capability       family = "$mcp-server/capability/"
	presence         family = "$mcp-server/presence/"
	clientCapability family = "$mcp-client/capability/"
	clientPresence   family = "$mcp-client/presence/"
	rpc              family = "$mcp-rpc/"
)

// families are in the order in which topics are compared with them.
var families = []family{capability, presence, control, clientCapability, clientPresence, rpc}

// ServerID is the server-id of the bridge: of every bridge, since each answers the clients
// that are connected to it.
const ServerID = "aibridge"

// longest is the greatest total length of the levels of ids and names, in bytes.
const longest = 512

// A place is a topic, or a filter, taken apart.
type place struct {
	family family
	client string // mcp-client-id
	server string // server-id
	name   string // server-name, which may have several levels
}

// parse splits a topic, or a filter, whose ids and name may be wildcards.
func parse(topic string) (p place, ok bool) {
	rest := ""
	for _, p.family = range families {
		if rest, ok = strings.CutPrefix(topic, string(p.family)); ok {
			break
		}
	}
	if !ok || len(rest) > longest {
		return p, false
	}
	switch p.family {
	case clientCapability, clientPresence:
		p.client = rest
		return p, isID(p.client)
	case rpc:
		p.client, rest, _ = strings.Cut(rest, "/")
		if !isID(p.client) {
			return p, false
		}
		if rest == "#" { // of all servers
			rest = "+/#"
		}
	}
	p.server, p.name, _ = strings.Cut(rest, "/")
	return p, isID(p.server) && p.name != "" && !strings.HasPrefix(p.name, "/") && !strings.HasSuffix(p.name, "/") && !strings.Contains(p.name, "//")
}

// isID reports whether a text may be an id, or is the wildcard in place of one.
func isID(text string) bool {
	return text != "" && (text == "+" || !strings.ContainsAny(text, "/+#"))
}

// topic is the topic of a place.
func (p place) topic() string {
	levels := string(p.family) + p.client
	if p.server == "" {
		return levels
	}
	if p.client != "" {
		levels += "/"
	}
	return levels + p.server + "/" + p.name
}

// toolsName is the server's name in the names of its tools, made of the server-name: in
// lower case, with - for other characters than letters, digits and _.
func toolsName(serverName string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, serverName), "-_")
}
