package doctor

import (
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A Kind is a kind of fault. Its first word is the check that it belongs to.
type Kind string

// The kinds of faults.
const (
	NoCredential      Kind = "connect.anonymous"   // nothing was shown
	UnknownCredential Kind = "connect.credential"  // the shown credential is wrong, or not known
	ExpiredCredential Kind = "connect.expired"     // it was good once
	RevokedCredential Kind = "connect.revoked"     // it was taken back
	Throttled         Kind = "connect.throttled"   // after too many failures
	IDTaken           Kind = "connect.taken"       // another principal has the client id
	ConnectQuota      Kind = "connect.quota"       // too many connections or sessions
	BadConnect        Kind = "connect.protocol"    // a CONNECT that breaks the rules
	KeepAliveMissed   Kind = "connection.silent"   // nothing came within the keep-alive
	TakenOver         Kind = "connection.taken"    // another connection with the client id took its place
	ProtocolBroken    Kind = "connection.protocol" // a packet that breaks the rules
	Overwhelmed       Kind = "connection.quota"    // it took too much, or read too slowly
	Dismissed         Kind = "connection.ended"    // by an operator, or with its credential
	CommandRefused    Kind = "command.refused"     // for its content or its sender
	StateRefused      Kind = "state.refused"       // a report of its state
	ClockWrong        Kind = "clock.wrong"         // a request was older than its deadline
	PublishRefused    Kind = "topic.publish"
	SubscribeRefused  Kind = "topic.subscribe"
	AnswerUnreadable  Kind = "answer.unreadable"
	AnswerUnasked     Kind = "answer.unasked"
	AnswerLate        Kind = "answer.late"
	AnswerForeign     Kind = "answer.foreign"
	AnswerUnfit       Kind = "answer.unfit"
	UnknownEvent      Kind = "answer.event"
	NoAnswer          Kind = "answer.missing"
)

// family is the first word of a kind.
func (k Kind) family() string {
	first, _, _ := strings.Cut(string(k), ".")
	return first
}

// words explain a kind: its meaning, and the remedy.
type words struct{ what, do string }

var inWords = map[Kind]words{
	NoCredential:      {"it connected without showing a credential", "show an API key (user name apikey, the key as password), a token (user name jwt), or a client certificate"},
	UnknownCredential: {"its credential is wrong", "compare what the device shows with what it was given; an operator makes another key with aibridge key create"},
	ExpiredCredential: {"its credential has expired", "renew it: another key with aibridge key create, a token from its issuer, a certificate with aibridge cert renew"},
	RevokedCredential: {"its credential was revoked", "somebody took it back; if that was not meant, give the device another one"},
	Throttled:         {"it failed so often that it has to wait before it may try again", "mend the credential, then wait half a minute"},
	IDTaken:           {"its client id belongs to another principal", "choose another client id, or end the other session with aibridge sessions kick"},
	ConnectQuota:      {"it has too many connections or sessions", "close those that are not needed, or raise quotas.*.connections or quotas.*.sessions"},
	BadConnect:        {"its CONNECT packet breaks the rules of MQTT", "correct the client's configuration: client id, will, keep-alive, version"},
	KeepAliveMissed:   {"nothing came from it within its keep-alive time", "the device or its network stood still: send PINGREQ in time, or ask for a longer keep-alive"},
	TakenOver:         {"another connection with the same client id took its place", "give every device a client id of its own"},
	ProtocolBroken:    {"it sent a packet that breaks the rules of MQTT", "update or correct the client's MQTT library; aibridge sessions trace shows its packets"},
	Overwhelmed:       {"it takes messages too slowly, or has more than it may", "read faster, subscribe to less, or raise the limit that is named"},
	Dismissed:         {"its connection was ended", "the reason says by what; connect again with a credential that counts"},
	CommandRefused:    {"a command was refused", "correct what the message names; docs/troubleshooting.md has the codes"},
	StateRefused:      {"a report of its state was refused", "publish an object with a merge patch for each skill, as state_schema of the skill allows"},
	ClockWrong:        {"a request came after its own deadline", "set the device's clock by NTP, or send timestamp 0"},
	PublishRefused:    {"a publish was refused", "publish only on topics of its own; aibridge policy explain says which policy decides"},
	SubscribeRefused:  {"a subscription was refused", "subscribe only to topics of its own; aibridge policy explain says which policy decides"},
	AnswerUnreadable:  {"an answer could not be read", "send a response envelope: id of the request, type response, status success or error, result or error"},
	AnswerUnasked:     {"it answers what nobody has asked", "copy the id of the request into the answer, and answer once"},
	AnswerLate:        {"an answer came when nobody waited for it any more", "answer before metadata.timeout of the request is over, or send task.progress and let callers wait longer"},
	AnswerForeign:     {"it answered what another agent was asked", "answer on the response topic of the agent that got the request, with its credential"},
	AnswerUnfit:       {"a result does not fit the schema of its capability", "return what result_schema promises, or register the skill with the schema that is meant"},
	UnknownEvent:      {"it sent an event that the protocol does not know", "before its answer an agent sends task.accepted, task.progress, task.delta or task.rejected"},
	NoAnswer:          {"a request was not answered before its deadline", "answer every request; log what the device receives on its request topic"},
}

// A Fault is something that went wrong between a device and the bridge. It
// holds no secret.
type Fault struct {
	Kind   Kind
	Party  protocol.Party // of the device; zero if it is not known
	Client string         // MQTT client id, "" for others
	Agent  protocol.AgentID
	From   string // address, "" if it is not known
	Reason string // in words that the device may see
	Code   string // of MQTT, such as 0x87, or of the protocol; "" without one
	Topic  string // topic, filter or command that was refused; "" for others
	// Unproven says that the client has not proved to be the party: it has only
	// claimed something of it, such as the id of a key.
	Unproven bool
}

// Bounds of foreign texts in a fault, in bytes.
const (
	mostReason = 300
	mostName   = 128
)

// bounded is the fault as it is kept: short, and without characters that mislead a
// reader.
func (f Fault) bounded() Fault {
	f.Client, f.From = short(f.Client, mostName), short(f.From, mostName)
	f.Topic, f.Reason = short(f.Topic, mostReason), short(f.Reason, mostReason)
	return f
}

// short is a text in one line of at most so many bytes.
func short(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	if protocol.CheckText(text, false) == "" {
		return strings.Clone(text) // the text may be a part of something large
	}
	return strings.Map(func(r rune) rune {
		if protocol.CheckText(string(r), false) != "" {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
}

// A Case is a fault that was noted, perhaps again and again.
type Case struct {
	Fault
	First, Last time.Time
	Times       int
}
