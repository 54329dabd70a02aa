package protocol

import "strings"

// DefaultRoot is the first level of every topic unless configured otherwise.
const DefaultRoot = "aibridge"

// Topics builds and recognises the topics of PROTOCOL §2 under one root.
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

// ClientResponse carries answers to requests that name no Response Topic.
func (t Topics) ClientResponse(id string) string { return t.root + "/client/" + id + "/response" }

// AgentRequest carries invocations to an agent.
func (t Topics) AgentRequest(id AgentID) string { return t.root + "/agent/" + string(id) + "/request" }

// AgentResponse carries an agent's answers and events.
func (t Topics) AgentResponse(id AgentID) string {
	return t.root + "/agent/" + string(id) + "/response"
}

// AgentCard holds the retained agent card.
func (t Topics) AgentCard(id AgentID) string { return t.root + "/agent/" + string(id) + "/card" }

// TaskEvent carries the progress of a task.
func (t Topics) TaskEvent(id TaskID) string { return t.root + "/task/" + string(id) + "/event" }

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
