package protocol

import "strings"

// DefaultRoot is the first level of every topic unless configured otherwise.
const DefaultRoot = "aibridge"

// Topics builds and recognises the topics of docs/protocol.md#topics under one root.
// Identifiers go into topics as they are: their rules exclude separators and wildcards.
type Topics struct{ root string }

// NewTopics returns the topics under root, [DefaultRoot] when root is "".
func NewTopics(root string) Topics {
	if root == "" {
		root = DefaultRoot
	}
	return Topics{root: root}
}

// Root is the first level.
func (t Topics) Root() string { return t.root }

// BridgeRequest takes every command of every client.
func (t Topics) BridgeRequest() string { return t.root + "/bridge/request" }

// BridgeMCP takes one message of the Model Context Protocol at a time.
func (t Topics) BridgeMCP() string { return t.root + "/bridge/mcp" }

// ClientResponse carries answers to requests that name no Response Topic.
func (t Topics) ClientResponse(id string) string { return t.root + "/client/" + id + "/response" }

// AgentRequest carries invocations and group commands to an agent.
func (t Topics) AgentRequest(id AgentID) string { return t.root + "/agent/" + string(id) + "/request" }

// AgentResponse carries an agent's answers and events.
func (t Topics) AgentResponse(id AgentID) string {
	return t.root + "/agent/" + string(id) + "/response"
}

// AgentCard holds the retained agent card.
func (t Topics) AgentCard(id AgentID) string { return t.root + "/agent/" + string(id) + "/card" }

// AgentState holds the state of an agent, retained: leaf is desired, reported or
// delta. An agent publishes on its reported topic, too
// (docs/protocol.md#desired-and-reported-state).
func (t Topics) AgentState(id AgentID, leaf string) string {
	return t.root + "/agent/" + string(id) + "/state/" + leaf
}

// StateOf is the agent whose state a topic holds.
func (t Topics) StateOf(topic string) (AgentID, bool) {
	rest, ok := t.Under(topic)
	if !ok {
		return "", false
	}
	rest, ok = strings.CutPrefix(rest, "agent/")
	id, leaf, _ := strings.Cut(rest, "/")
	return AgentID(id), ok && id != "" && strings.HasPrefix(leaf, "state/")
}

// AgentEvent carries the faults of an agent, for its maintainers.
func (t Topics) AgentEvent(id AgentID) string { return t.root + "/agent/" + string(id) + "/event" }

// CapMessage is a topic of the channel itself, between its members. What
// follows the channel's own prefix is theirs: levels joined by slashes.
func (t Topics) CapMessage(id CapID, sub string) string {
	return t.root + "/cap/" + string(id) + "/message/" + sub
}

// CapData holds the last value of channel data, retained.
func (t Topics) CapData(id CapID, group GroupID, key DataKey) string {
	return t.root + "/cap/" + string(id) + "/data/" + string(group) + "/" + string(key)
}

// VFSEvent carries the changes of a group's files.
func (t Topics) VFSEvent(group GroupName) string { return t.VFS(group, "event") }

// CapEvent carries membership, link, data and sync events of a channel.
func (t Topics) CapEvent(id CapID) string { return t.root + "/cap/" + string(id) + "/event" }

// Cap is the Cap whose topics a topic or filter is about. A wildcard in place
// of the id names none.
func (t Topics) Cap(topic string) (CapID, bool) {
	rest, ok := t.Under(topic)
	if !ok {
		return "", false
	}
	if rest, ok = strings.CutPrefix(rest, "cap/"); !ok {
		return "", false
	}
	id, _, ok := strings.Cut(rest, "/")
	return CapID(id), ok && id != "" && id != "+"
}

// SceneEvent carries what happens to a scene: declared, joined, left,
// suspended, cancelled.
func (t Topics) SceneEvent(scene SceneType, id CapID) string {
	return t.root + "/scene/" + string(scene) + "/" + string(id) + "/event"
}

// TaskEvent carries the progress of a task.
func (t Topics) TaskEvent(id TaskID) string { return t.root + "/task/" + string(id) + "/event" }

// VFS carries chunked file transfer of a group.
func (t Topics) VFS(group GroupName, sub string) string {
	return t.root + "/vfs/" + string(group) + "/" + sub
}

// Entity carries what Home Assistant is told of an entity, retained, and below
// set what it says (docs/home-assistant.md#skills-as-entities).
func (t Topics) Entity(id, leaf string) string { return t.root + "/entity/" + id + "/" + leaf }

// Event carries registry and security events of a family.
func (t Topics) Event(family string) string { return t.root + "/event/" + family }

// Under returns what follows the root ("agent/x/request") and whether the
// topic is under it.
func (t Topics) Under(topic string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(topic, t.root)
	if !ok || len(rest) == 0 || rest[0] != '/' {
		return "", false
	}
	return rest[1:], true
}

// Agent takes an agent's topic apart: agent x and leaf "request". It works on
// filters too, where the agent may be "+" and the leaf "#".
func (t Topics) Agent(topic string) (id AgentID, leaf string, ok bool) {
	name, leaf, ok := t.family(topic, "agent/")
	return AgentID(name), leaf, ok
}

// Client takes a client's topic apart, as Agent does.
func (t Topics) Client(topic string) (id, leaf string, ok bool) {
	return t.family(topic, "client/")
}

// family takes root/family/name/leaf apart.
func (t Topics) family(topic, prefix string) (name, leaf string, ok bool) {
	rest, ok := t.Under(topic)
	if !ok {
		return "", "", false
	}
	if rest, ok = strings.CutPrefix(rest, prefix); !ok {
		return "", "", false
	}
	name, leaf, ok = strings.Cut(rest, "/")
	if !ok || name == "" || strings.Contains(leaf, "/") {
		return "", "", false
	}
	return name, leaf, true
}
