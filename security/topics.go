package security

import (
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// notAuthorized is MQTT 5's reason code for what a client may not do.
const notAuthorized = 0x87

// A Ruling is the answer about a topic. The zero value allows; otherwise
// Reason is an MQTT 5 reason code and Text may be told to the client.
type Ruling struct {
	Reason byte
	Text   string
}

func refused(text string) Ruling { return Ruling{notAuthorized, text} }

// TopicRights are the rights of PROTOCOL §2 on the bridge's topics. Only the
// bridge publishes cards, events, tasks, channel data and anything under
// client/, whoever else asks; an agent publishes to its own response topic and
// subscribes to its own request topic.
//
// On the channel of a Cap members speak and listen, and on its data and events
// they listen.
type TopicRights struct {
	topics protocol.Topics
	// owner says whose the client id is, if such a client is connected or has
	// a session.
	owner   func(clientID string) (principalID string, ok bool)
	members Members
}

// Members knows who may use the channel of a Cap, to send on it or to listen.
// It is asked on the message path and must be fast.
type Members interface {
	MayUseChannel(who *protocol.Principal, id protocol.CapID, send bool) bool
}

// NewTopicRights makes the rights for the topics under one root. Without
// members only those who may do everything use channels.
func NewTopicRights(topics protocol.Topics, owner func(clientID string) (principalID string, ok bool), members Members) *TopicRights {
	return &TopicRights{topics: topics, owner: owner, members: members}
}

// MayPublish decides about a client's publish.
func (r *TopicRights) MayPublish(who *protocol.Principal, topic string, retain bool) Ruling {
	rest, ours := r.topics.Under(topic)
	if !ours {
		if strings.HasPrefix(topic, "$") {
			return refused("topics that begin with $ are the server's")
		}
		return Ruling{}
	}
	family, rest, _ := strings.Cut(rest, "/")
	switch family {
	case "bridge":
		if rest != "request" {
			return refused("no such topic")
		}
		if retain {
			return refused("a request may not be retained")
		}
		return Ruling{}
	case "agent":
		id, leaf, _ := strings.Cut(rest, "/")
		if leaf != "response" {
			return refused("only the bridge publishes here")
		}
		if retain {
			return refused("a response may not be retained")
		}
		if !mayActFor(who, id) {
			return refused("not your agent")
		}
		return Ruling{}
	case "cap":
		id, leaf, _ := strings.Cut(rest, "/")
		if leaf, _, _ = strings.Cut(leaf, "/"); leaf != "message" {
			return refused("only the bridge publishes here")
		}
		if !r.mayUseChannel(who, id, true) {
			return refused("not a member")
		}
		return Ruling{}
	}
	return refused("only the bridge publishes here")
}

// MaySubscribe decides about a client's subscription. $share/group/F is
// judged as F.
func (r *TopicRights) MaySubscribe(who *protocol.Principal, filter string) Ruling {
	if shared, ok := strings.CutPrefix(filter, "$share/"); ok {
		_, filter, _ = strings.Cut(shared, "/")
	}
	if privileged(who) {
		return Ruling{}
	}
	rest, ours := r.topics.Under(filter)
	if !ours {
		if first, _, _ := strings.Cut(filter, "/"); first == "#" || first == "+" || first == r.topics.Root() || strings.HasPrefix(first, "$") {
			return refused("the filter reaches further than you may")
		}
		return Ruling{}
	}
	family, rest, _ := strings.Cut(rest, "/")
	switch family {
	case "agent":
		if id, leaf, _ := strings.Cut(rest, "/"); leaf == "request" && mayActFor(who, id) {
			return Ruling{}
		}
	case "client":
		if id, ok := strings.CutSuffix(rest, "/response"); ok && !strings.ContainsAny(id, "+#") && r.owns(who, id) {
			return Ruling{}
		}
	case "cap":
		if id, leaf, ok := strings.Cut(rest, "/"); ok && channelLeaf(leaf) {
			if r.mayUseChannel(who, id, false) {
				return Ruling{}
			}
			return refused("not a member")
		}
	}
	return refused("not allowed")
}

// channelLeaf reports whether a filter, from behind the Cap's id, stays on
// what members may hear.
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

// mayUseChannel asks for membership. A wildcard is no Cap.
func (r *TopicRights) mayUseChannel(who *protocol.Principal, id string, send bool) bool {
	if privileged(who) {
		return true
	}
	return r.members != nil && !strings.ContainsAny(id, "+#") && r.members.MayUseChannel(who, protocol.CapID(id), send)
}

// MayRespond reports whether an answer to the principal may go to a topic: one
// under client/ of its own client ids, or outside the root. The bridge is
// nobody's deputy.
func (r *TopicRights) MayRespond(who *protocol.Principal, topic string) bool {
	if topic == "" || strings.HasPrefix(topic, "$") || strings.ContainsAny(topic, "+#\x00") {
		return false
	}
	rest, ours := r.topics.Under(topic)
	if !ours {
		return topic != r.topics.Root()
	}
	rest, ok := strings.CutPrefix(rest, "client/")
	if !ok {
		return false
	}
	id, ok := strings.CutSuffix(rest, "/response")
	return ok && id != "" && r.owns(who, id)
}

// owns reports whether a client id is the principal's. One that nobody uses
// is free for those who may act for anyone.
func (r *TopicRights) owns(who *protocol.Principal, clientID string) bool {
	owner, known := r.owner(clientID)
	if !known {
		return privileged(who)
	}
	return owner == who.ID
}
