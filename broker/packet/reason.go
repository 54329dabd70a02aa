package packet

import "fmt"

// A Reason is an MQTT 5 reason code; 0x80 and above are failures.
type Reason byte

// The reason codes. Several names share 0x00.
const (
	Success                    Reason = 0x00
	NormalDisconnection        Reason = 0x00
	GrantedQoS0                Reason = 0x00
	GrantedQoS1                Reason = 0x01
	GrantedQoS2                Reason = 0x02
	DisconnectWithWill         Reason = 0x04
	NoMatchingSubscribers      Reason = 0x10
	NoSubscriptionExisted      Reason = 0x11
	ContinueAuthentication     Reason = 0x18
	Reauthenticate             Reason = 0x19
	UnspecifiedError           Reason = 0x80
	MalformedPacket            Reason = 0x81
	ProtocolError              Reason = 0x82
	ImplementationSpecific     Reason = 0x83
	UnsupportedProtocolVersion Reason = 0x84
	ClientIdentifierNotValid   Reason = 0x85
	BadUserNameOrPassword      Reason = 0x86
	NotAuthorized              Reason = 0x87
	ServerUnavailable          Reason = 0x88
	ServerBusy                 Reason = 0x89
	Banned                     Reason = 0x8A
	ServerShuttingDown         Reason = 0x8B
	BadAuthenticationMethod    Reason = 0x8C
	KeepAliveTimeout           Reason = 0x8D
	SessionTakenOver           Reason = 0x8E
	TopicFilterInvalid         Reason = 0x8F
	TopicNameInvalid           Reason = 0x90
	PacketIdentifierInUse      Reason = 0x91
	PacketIdentifierNotFound   Reason = 0x92
	ReceiveMaximumExceeded     Reason = 0x93
	TopicAliasInvalid          Reason = 0x94
	PacketTooLarge             Reason = 0x95
	MessageRateTooHigh         Reason = 0x96
	QuotaExceeded              Reason = 0x97
	AdministrativeAction       Reason = 0x98
	PayloadFormatInvalid       Reason = 0x99
	RetainNotSupported         Reason = 0x9A
	QoSNotSupported            Reason = 0x9B
	UseAnotherServer           Reason = 0x9C
	ServerMoved                Reason = 0x9D
	SharedSubscriptionsNot     Reason = 0x9E
	ConnectionRateExceeded     Reason = 0x9F
	MaximumConnectTime         Reason = 0xA0
	SubscriptionIdentifiersNot Reason = 0xA1
	WildcardSubscriptionsNot   Reason = 0xA2
)

var reasonNames = map[Reason]string{ //nolint:gosec // names, no passwords
	Success: "success", GrantedQoS1: "granted QoS 1", GrantedQoS2: "granted QoS 2",
	DisconnectWithWill: "disconnect with will message", NoMatchingSubscribers: "no matching subscribers",
	NoSubscriptionExisted: "no subscription existed", ContinueAuthentication: "continue authentication",
	Reauthenticate: "re-authenticate", UnspecifiedError: "unspecified error", MalformedPacket: "malformed packet",
	ProtocolError: "protocol error", ImplementationSpecific: "implementation specific error",
	UnsupportedProtocolVersion: "unsupported protocol version", ClientIdentifierNotValid: "client identifier not valid",
	BadUserNameOrPassword: "bad user name or password", NotAuthorized: "not authorized",
	ServerUnavailable: "server unavailable", ServerBusy: "server busy", Banned: "banned",
	ServerShuttingDown: "server shutting down", BadAuthenticationMethod: "bad authentication method",
	KeepAliveTimeout: "keep alive timeout", SessionTakenOver: "session taken over",
	TopicFilterInvalid: "topic filter invalid", TopicNameInvalid: "topic name invalid",
	PacketIdentifierInUse: "packet identifier in use", PacketIdentifierNotFound: "packet identifier not found",
	ReceiveMaximumExceeded: "receive maximum exceeded", TopicAliasInvalid: "topic alias invalid",
	PacketTooLarge: "packet too large", MessageRateTooHigh: "message rate too high", QuotaExceeded: "quota exceeded",
	AdministrativeAction: "administrative action", PayloadFormatInvalid: "payload format invalid",
	RetainNotSupported: "retain not supported", QoSNotSupported: "QoS not supported",
	UseAnotherServer: "use another server", ServerMoved: "server moved",
	SharedSubscriptionsNot: "shared subscriptions not supported", ConnectionRateExceeded: "connection rate exceeded",
	MaximumConnectTime: "maximum connect time", SubscriptionIdentifiersNot: "subscription identifiers not supported",
	WildcardSubscriptionsNot: "wildcard subscriptions not supported",
}

func (r Reason) String() string {
	if s, ok := reasonNames[r]; ok {
		return s
	}
	return fmt.Sprintf("reason 0x%02X", byte(r))
}

// Failed reports whether the reason refuses.
func (r Reason) Failed() bool { return r >= 0x80 }

// allowedReasons lists, per packet, the codes a peer may send. The tables are
// those of MQTT 5 §3.x.2.
func allowedReason(t Type, r Reason) bool {
	switch t {
	case PUBACK, PUBREC:
		switch r {
		case Success, NoMatchingSubscribers, UnspecifiedError, ImplementationSpecific, NotAuthorized,
			TopicNameInvalid, PacketIdentifierInUse, QuotaExceeded, PayloadFormatInvalid:
			return true
		}
	case PUBREL, PUBCOMP:
		return r == Success || r == PacketIdentifierNotFound
	case AUTH:
		return r == Success || r == ContinueAuthentication || r == Reauthenticate
	case DISCONNECT:
		switch {
		case r == NormalDisconnection, r == DisconnectWithWill:
			return true
		case r >= UnspecifiedError && r <= ImplementationSpecific, r == NotAuthorized, r == ServerBusy,
			r == ServerShuttingDown, r == KeepAliveTimeout, r == SessionTakenOver, r == TopicFilterInvalid, r == TopicNameInvalid,
			r >= ReceiveMaximumExceeded && r <= WildcardSubscriptionsNot:
			return true
		case r == BadAuthenticationMethod: // only server to client by the table, harmless
			return true
		}
	case CONNACK:
		return r == Success || r >= UnspecifiedError && r <= BadAuthenticationMethod && r != ServerShuttingDown ||
			r == TopicNameInvalid || r >= PacketTooLarge && r <= ConnectionRateExceeded && r != MessageRateTooHigh && r != AdministrativeAction && r != SharedSubscriptionsNot
	case SUBACK:
		return r <= GrantedQoS2 || r == UnspecifiedError || r == ImplementationSpecific || r == NotAuthorized || r == TopicFilterInvalid ||
			r == PacketIdentifierInUse || r == QuotaExceeded || r == SharedSubscriptionsNot || r == SubscriptionIdentifiersNot || r == WildcardSubscriptionsNot
	case UNSUBACK:
		return r == Success || r == NoSubscriptionExisted || r == UnspecifiedError || r == ImplementationSpecific || r == NotAuthorized ||
			r == TopicFilterInvalid || r == PacketIdentifierInUse
	}
	return false
}

// An Error is a violation by the peer: Reason is what MQTT 5 tells it, Text
// what was wrong.
type Error struct {
	Reason Reason
	Text   string
}

func (e *Error) Error() string {
	if e.Text == "" {
		return e.Reason.String()
	}
	return e.Reason.String() + ": " + e.Text
}

func malformed(text string) *Error { return &Error{MalformedPacket, text} }
func violation(text string) *Error { return &Error{ProtocolError, text} }
