package security

import (
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/cloudevent"
	"github.com/aibridge/aibridge/security/policy"
)

// notAuthorized is MQTT 5's reason code for acts without a right.
const notAuthorized = 0x87

// A Ruling is the answer about a topic. The zero value allows; otherwise
// Reason is an MQTT 5 reason code and Text may be shown to the client.
type Ruling struct {
	Reason byte
	Text   string
}

func refused(text string) Ruling { return Ruling{notAuthorized, text} }

// TopicRights are the rights on the bridge's topics
// (docs/protocol.md#who-may-do-what).
//
// Some hold for every principal: only the bridge publishes cards, events, tasks,
// channel data and anything under client/, and requests and responses are not
// retained. Beyond that the topic is classified by its kind and by whether it is
// the principal's own - its agent's, its client's, its channel by membership - and
// policy decides (docs/policy.md).
type TopicRights struct {
	TopicOptions
}

// TopicOptions configure [TopicRights]. Topics and Policies are needed.
type TopicOptions struct {
	Topics   protocol.Topics
	Policies Policies
	// Owner is the principal whose client uses an id in a space, if such a
	// client is connected.
	Owner func(space protocol.SpaceID, clientID string) (who *protocol.Principal, ok bool)
	// A2A says that A2A over MQTT is on.
	A2A bool
	// MCP says that MCP over MQTT is on.
	MCP bool
	// Standing knows the ties of a principal to agents, Caps, scenes and tasks.
	// Without it no principal has any.
	Standing Standing
}

// Policies decide. The epoch moves whenever a decision may have changed, also
// because a principal's standing did.
type Policies interface {
	Decider
	Epoch() uint64
}

// Standing knows the ties of principals to things. It is called for every message
// and must be fast.
type Standing interface {
	// OwnsAgent reports whether a principal registered an agent.
	OwnsAgent(who *protocol.Principal, id protocol.AgentID) bool
	// MayUseChannel reports whether a principal may send on the channel of a Cap,
	// or listen to it.
	MayUseChannel(who *protocol.Principal, id protocol.CapID, send bool) bool
	MayHearScene(who *protocol.Principal, scene protocol.SceneType, id protocol.CapID) bool
	MayFollowTask(who *protocol.Principal, id protocol.TaskID) bool
	// MayFollowFiles reports whether a principal may hear of changes of a group's
	// files. It may not follow a group without files: that looks like another
	// principal's.
	MayFollowFiles(who *protocol.Principal, group string) bool
}

// NewTopicRights makes the rights for the topics under one root.
func NewTopicRights(o TopicOptions) *TopicRights {
	if o.Standing == nil {
		o.Standing = noStanding{}
	}
	if o.Owner == nil {
		o.Owner = func(protocol.SpaceID, string) (*protocol.Principal, bool) { return nil, false }
	}
	return &TopicRights{o}
}

// A topicClass classifies a topic, or all topics of a filter, for one principal.
type topicClass struct {
	kind kind
	cap  string
	own  bool
}

// A kind is the kind of a topic, resource.kind in policies.
type kind string

const (
	requests  kind = "request"  // of an agent, or of the bridge
	responses kind = "response" // of an agent
	answers   kind = "answer"   // of the bridge, under client/
	cards     kind = "card"
	states    kind = "state" // of an agent, desired, reported or the delta
	channels  kind = "channel"
	scenes    kind = "scene"
	tasks     kind = "task"
	events    kind = "events"
	files     kind = "file"
	entities  kind = "entity"  // the topics for Home Assistant
	a2a       kind = "a2a"     // of A2A over MQTT, which has rules of its own
	mcp       kind = "mcp"     // of MCP over MQTT, likewise
	outside   kind = "outside" // not under the root
	dollar    kind = "dollar"  // begins with $, and is not the server's
	other     kind = "other"   // under the root, or reaching over several kinds
)

// Roots of the topics of A2A and of MCP over MQTT.
const (
	a2aRoot = "$a2a/"
	mcpRoot = "$mcp-"
)

// profile is the class of a topic, or of a filter, that has rules of its own, if it is one.
func (r *TopicRights) profile(topic string) (p topicClass, ok bool) {
	switch {
	case r.A2A && strings.HasPrefix(topic, a2aRoot):
		return topicClass{kind: a2a, own: true}, true
	case r.MCP && strings.HasPrefix(topic, mcpRoot):
		return topicClass{kind: mcp, own: true}, true
	}
	return p, false
}

const onlyTheBridge = "only the bridge publishes here"

// noSuchTopic names the topic that was probably meant.
func (r *TopicRights) noSuchTopic() string {
	return "no such topic; requests go to " + r.Topics.BridgeRequest()
}

// MayPublish decides about a client's publish.
func (r *TopicRights) MayPublish(who *protocol.Principal, topic string, retain bool) Ruling {
	ruling, _ := r.judgePublish(who, topic, retain)
	return ruling
}

// judgePublish also returns whether the ruling is passing: it may change with time
// alone.
func (r *TopicRights) judgePublish(who *protocol.Principal, topic string, retain bool) (ruling Ruling, passing bool) {
	p, wrong := r.publishing(who, topic, retain)
	if wrong != "" {
		return refused(wrong), false
	}
	if p.kind == requests { // the router answers by envelope
		return Ruling{}, false
	}
	return r.decide(who, policy.Publish, topic, p)
}

// publishing classifies a topic for its publisher.
func (r *TopicRights) publishing(who *protocol.Principal, topic string, retain bool) (p topicClass, wrong string) {
	rest, ours := r.Topics.Under(topic)
	if !ours {
		if p, ok := r.profile(topic); ok {
			return p, ""
		}
		switch {
		case serversOwn(topic):
			return p, "topics under $SYS and $share are the server's"
		case strings.HasPrefix(topic, "$"):
			return topicClass{kind: dollar}, ""
		}
		return topicClass{kind: outside}, ""
	}
	family, rest, _ := strings.Cut(rest, "/")
	switch family {
	case "bridge":
		switch {
		case rest != "request" && rest != "mcp":
			return p, r.noSuchTopic()
		case retain:
			return p, "a request may not be retained"
		}
		return topicClass{kind: requests}, ""
	case "agent":
		id, leaf, _ := strings.Cut(rest, "/")
		switch {
		case leaf == "state/reported": // retained or not: the bridge retains the merged state itself
			return topicClass{kind: states, own: r.isAgent(who, id)}, ""
		case leaf != "response":
			return p, onlyTheBridge
		case retain:
			return p, "a response may not be retained"
		}
		return topicClass{kind: responses, own: r.isAgent(who, id)}, ""
	case "cap":
		id, leaf, _ := strings.Cut(rest, "/")
		if leaf, _, _ = strings.Cut(leaf, "/"); leaf != "message" {
			return p, onlyTheBridge
		}
		return topicClass{kind: channels, cap: id, own: r.Standing.MayUseChannel(who, protocol.CapID(id), true)}, ""
	case "vfs":
		group, leaf, _ := strings.Cut(rest, "/")
		verb, transfer, _ := strings.Cut(leaf, "/")
		switch {
		case group == "" || transfer == "":
			return p, "no such topic"
		case verb != "put" && verb != "get":
			return p, onlyTheBridge
		case retain:
			return p, "a transfer may not be retained"
		}
		// The owner of the files is checked by each transfer: a check here would
		// reveal which groups exist.
		return topicClass{kind: files, own: true}, ""
	case "entity":
		switch {
		case !strings.HasSuffix(rest, "/set"):
			return p, onlyTheBridge
		case retain:
			return p, "a command may not be retained"
		}
		return topicClass{kind: requests}, ""
	case "client", "scene", "task", "event", "cloudevents":
		return p, onlyTheBridge
	}
	return p, r.noSuchTopic()
}

// MaySubscribe decides about a client's subscription. $share/group/F is
// judged as F.
func (r *TopicRights) MaySubscribe(who *protocol.Principal, filter string) Ruling {
	if shared, ok := strings.CutPrefix(filter, "$share/"); ok {
		_, filter, _ = strings.Cut(shared, "/")
	}
	filter = cloudevent.Told(r.Topics, filter)
	ruling, _ := r.decide(who, policy.Subscribe, filter, r.subscribing(who, filter))
	return ruling
}

// subscribing classifies the topics of a filter for its subscriber. A filter that
// matches topics of several owners is not the subscriber's own, and one that
// matches several kinds of topics is of kind other.
func (r *TopicRights) subscribing(who *protocol.Principal, filter string) topicClass {
	rest, ours := r.Topics.Under(filter)
	if !ours {
		if p, ok := r.profile(filter); ok {
			return p
		}
		switch first, _, _ := strings.Cut(filter, "/"); {
		case first == "#", first == "+", first == r.Topics.Root(), serversOwn(filter):
			return topicClass{kind: other}
		case strings.HasPrefix(first, "$"):
			return topicClass{kind: dollar}
		}
		return topicClass{kind: outside}
	}
	family, rest, _ := strings.Cut(rest, "/")
	id, leaf, _ := strings.Cut(rest, "/")
	one := id != "" && !wild(id)
	switch family {
	case "bridge":
		return topicClass{kind: requests}
	case "agent":
		return r.ofAgent(who, id, leaf, one)
	case "client":
		if leaf == "response" {
			return topicClass{kind: answers, own: one && r.owns(who, id)}
		}
	case "cap":
		if channelLeaf(leaf) {
			if !one {
				return topicClass{kind: channels}
			}
			return topicClass{kind: channels, cap: id, own: r.Standing.MayUseChannel(who, protocol.CapID(id), false)}
		}
	case "scene":
		if c, end, ok := strings.Cut(leaf, "/"); ok && end == "event" {
			return topicClass{kind: scenes, own: one && c != "" && !wild(c) && r.Standing.MayHearScene(who, protocol.SceneType(id), protocol.CapID(c))}
		}
	case "task":
		if leaf == "event" {
			return topicClass{kind: tasks, own: one && r.Standing.MayFollowTask(who, protocol.TaskID(id))}
		}
	case "vfs":
		// Requests of clients are for the bridge alone, and its
		// answers for the requester alone.
		verb, _, _ := strings.Cut(leaf, "/")
		own := verb == "status" || verb == "data" || leaf == "event" && r.Standing.MayFollowFiles(who, id)
		return topicClass{kind: files, own: one && own}
	case "event":
		return topicClass{kind: events}
	case "entity":
		return topicClass{kind: entities}
	}
	return topicClass{kind: other}
}

// ofAgent classifies an agent's topic.
func (r *TopicRights) ofAgent(who *protocol.Principal, id, leaf string, one bool) topicClass {
	switch leaf {
	case "request":
		return topicClass{kind: requests, own: one && r.isAgent(who, id)}
	case "response":
		return topicClass{kind: responses} // which the agent says itself
	case "card":
		return topicClass{kind: cards, own: one && r.isAgent(who, id)}
	case "state/desired", "state/reported", "state/delta", "state/+", "state/#":
		return topicClass{kind: states, own: one && r.isAgent(who, id)}
	case "event":
		return topicClass{kind: events, own: one && r.isAgent(who, id)}
	}
	return topicClass{kind: other}
}

// serversOwn reports whether a topic is one that only the server publishes on, or
// that has a meaning to it.
func serversOwn(topic string) bool {
	first, _, _ := strings.Cut(topic, "/")
	return first == "$SYS" || first == "$share"
}

func wild(level string) bool { return strings.ContainsAny(level, "+#") }

// channelLeaf reports whether a filter, from behind the Cap's id, matches only
// topics that members may hear.
func channelLeaf(leaf string) bool {
	first, _, deeper := strings.Cut(leaf, "/")
	switch first {
	case "message", "data":
		return true
	case "event":
		return !deeper
	}
	return false
}

// limited reports whether a credential that is limited to some actions is not
// for a place. The way of commands and their answers is open to it.
func (p topicClass) limited(who *protocol.Principal, action string) bool {
	switch p.kind {
	case requests, responses, answers:
		return !p.own && !ScopeAllows(who, action)
	}
	return !ScopeAllows(who, action)
}

// decide asks policy about a place.
func (r *TopicRights) decide(who *protocol.Principal, action, topic string, p topicClass) (ruling Ruling, passing bool) {
	if p.limited(who, action) {
		return refused("the credential is not for this"), false
	}
	d := r.Policies.Decide(&policy.Query{
		Who: who, Action: action, Type: "topic", ID: topic, Door: "mqtt",
		Facts: &policy.Facts{Kind: string(p.kind), Cap: p.cap, Own: p.own},
	})
	switch {
	case d.Allowed:
		return Ruling{}, d.Passing || d.Tried
	case p.kind == channels && p.cap != "" && !p.own:
		return refused("not a member"), d.Passing || d.Tried
	case (p.kind == responses || p.kind == states) && !p.own && action == policy.Publish:
		return refused("not your agent"), d.Passing || d.Tried
	case p.kind == dollar:
		return refused("no policy permits this topic, which begins with $"), d.Passing || d.Tried
	case p.kind == other:
		return refused("the filter reaches further than you may"), d.Passing || d.Tried
	}
	return refused("not allowed"), d.Passing || d.Tried
}

// isAgent reports whether a principal is an agent, or registered it.
func (r *TopicRights) isAgent(who *protocol.Principal, id string) bool {
	return who.Kind == protocol.KindAgent && who.ID == id || r.Standing.OwnsAgent(who, protocol.AgentID(id))
}

// MayRespond reports whether an answer to the principal may go to a topic: one
// under client/ of its own client ids, or outside the root. Else a caller could
// have the bridge publish where it may not itself.
func (r *TopicRights) MayRespond(who *protocol.Principal, topic string) bool {
	if topic == "" || serversOwn(topic) || strings.ContainsAny(topic, "+#\x00") {
		return false
	}
	rest, ours := r.Topics.Under(topic)
	if !ours {
		return topic != r.Topics.Root() && r.MaySubscribe(who, topic).Reason == 0
	}
	rest, ok := strings.CutPrefix(rest, "client/")
	if !ok {
		return false
	}
	id, ok := strings.CutSuffix(rest, "/response")
	return ok && id != "" && r.owns(who, id)
}

// owns reports whether a client id is the principal's, of those in its space.
// An unused one is free for principals that may act for anyone.
func (r *TopicRights) owns(who *protocol.Principal, clientID string) bool {
	owner, known := r.Owner(who.Home(), clientID)
	if !known {
		return who.Unbounded()
	}
	return owner.Same(who)
}

// noStanding is a [Standing] in which no principal owns or joins anything.
type noStanding struct{}

func (noStanding) OwnsAgent(*protocol.Principal, protocol.AgentID) bool         { return false }
func (noStanding) MayFollowFiles(*protocol.Principal, string) bool              { return false }
func (noStanding) MayUseChannel(*protocol.Principal, protocol.CapID, bool) bool { return false }
func (noStanding) MayHearScene(*protocol.Principal, protocol.SceneType, protocol.CapID) bool {
	return false
}
func (noStanding) MayFollowTask(*protocol.Principal, protocol.TaskID) bool { return false }
