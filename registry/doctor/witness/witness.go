// Package witness reports refusals of doors and guards to the doctor of devices, as
// faults: of logins, connections, topics and commands. It knows no secrets and
// passes none on.
package witness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
	"github.com/aibridge/aibridge/registry/ask"
	"github.com/aibridge/aibridge/registry/doctor"
	"github.com/aibridge/aibridge/security"
)

// A Doctor takes note of faults. [doctor.Service] is one. Its methods do not
// block.
type Doctor interface {
	Note(f doctor.Fault)
	NoteAndTell(f doctor.Fault)
}

// A Witness sees refusals. Its methods do not block.
type Witness struct {
	Doctor Doctor
	// Holder is the holder of a certificate of the bridge's authorities, whether or
	// not that is still valid.
	Holder func(protocol.Serial) (protocol.Party, bool)
	// Issued is the serial of a certificate of theirs, by its very bytes.
	Issued func(*x509.Certificate) (protocol.Serial, bool)
}

// Settled sees an attempt to authenticate. Of a failed one the doctor learns the cause,
// which the client does not.
func (w *Witness) Settled(_ context.Context, a security.Attempt) {
	if a.Err == nil || a.Cause == nil {
		return
	}
	f := doctor.Fault{Kind: kindOf(a.Cause), Party: a.Of, Client: a.Client, Reason: reasonOf(a.Cause), Code: string(protocol.CodeOf(a.Err)), Unproven: true}
	if a.From.IsValid() {
		f.From = a.From.String()
	}
	if known, ok := errors.AsType[*protocol.Error](a.Cause); ok && f.Party.ID == "" {
		serial, _ := known.Details["serial"].(string)
		f.Party, _ = w.Holder(protocol.Serial(serial))
	}
	w.Doctor.Note(f)
}

// kindOf is the kind of fault that a failed authentication is.
func kindOf(cause error) doctor.Kind {
	known, ok := errors.AsType[*protocol.Error](cause)
	switch {
	case !ok:
		if security.ExpiredToken(cause) {
			return doctor.ExpiredCredential
		}
		return doctor.UnknownCredential
	case known.Code == protocol.CertificateExpired, known.Details["reason"] == grant.ReasonExpired:
		return doctor.ExpiredCredential
	case known.Code == protocol.CertificateRevoked, known.Details["reason"] == "revoked":
		return doctor.RevokedCredential
	case known.Code == protocol.NotAuthenticated:
		return doctor.NoCredential
	case known.Code == protocol.RateLimited:
		return doctor.Throttled
	}
	return doctor.UnknownCredential
}

// reasonOf is the fault, in words.
func reasonOf(cause error) string {
	if known, ok := errors.AsType[*protocol.Error](cause); ok {
		return known.Message
	}
	return cause.Error()
}

// Reasons of MQTT 5 that are told apart.
const (
	notAuthorized  = 0x87
	keepAlive      = 0x8D
	takenOver      = 0x8E
	quotaExceeded  = 0x97
	administrative = 0x98
)

// Refused sees the refusals of the MQTT server.
func (w *Witness) Refused(r broker.Refusal) {
	f := doctor.Fault{Client: r.ClientID, Topic: r.Topic, Reason: r.Text, From: hostOf(r.Remote)}
	if r.Reason != 0 {
		f.Code = fmt.Sprintf("0x%02X", r.Reason)
	}
	if r.Who != nil {
		f.Party = r.Who.Party()
	}
	switch r.Of {
	case broker.OfHandshake:
		w.handshake(f, r.Handshake)
		return
	case broker.OfConnect:
		f.Kind = kindOfConnect(r)
	case broker.OfConnection:
		f.Kind = kindOfConnection(r.Reason)
	case broker.OfPublish:
		f.Kind = doctor.PublishRefused
	case broker.OfSubscribe:
		f.Kind = doctor.SubscribeRefused
	}
	if r.Who == nil {
		w.Doctor.Note(f)
		return
	}
	w.Doctor.NoteAndTell(f)
}

func kindOfConnect(r broker.Refusal) doctor.Kind {
	switch r.Reason {
	case notAuthorized:
		return doctor.IDTaken
	case quotaExceeded:
		return doctor.ConnectQuota
	}
	return doctor.BadConnect
}

func kindOfConnection(reason byte) doctor.Kind {
	switch reason {
	case keepAlive:
		return doctor.KeepAliveMissed
	case takenOver:
		return doctor.TakenOver
	case quotaExceeded:
		return doctor.Overwhelmed
	case notAuthorized, administrative:
		return doctor.Dismissed
	}
	return doctor.ProtocolBroken
}

// handshake sees why TLS failed. The fault of a certificate is attributed to its holder, though it
// is not proved that the holder has shown it.
func (w *Witness) handshake(f doctor.Fault, why error) {
	var serial protocol.Serial
	if known, ok := errors.AsType[*protocol.Error](why); ok {
		text, _ := known.Details["serial"].(string)
		serial = protocol.Serial(text)
	}
	f.Kind, f.Reason = kindOf(why), reasonOf(why)
	if unverified, ok := errors.AsType[*tls.CertificateVerificationError](why); ok && len(unverified.UnverifiedCertificates) > 0 {
		serial, _ = w.Issued(unverified.UnverifiedCertificates[0])
		if invalid, ok := errors.AsType[x509.CertificateInvalidError](unverified.Err); ok && invalid.Reason == x509.Expired {
			f.Kind, f.Reason = doctor.ExpiredCredential, "certificate "+string(serial)+" has expired, or is not valid yet"
		}
	}
	holder, ok := w.Holder(serial)
	if !ok {
		return // without a holder: a foreign certificate, or none at all
	}
	f.Party, f.Unproven = holder, true
	w.Doctor.Note(f)
}

func hostOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return ""
	}
	return host
}

// Command sees a command that was refused. Those of devices are faults; typing
// errors of people are not.
func (w *Witness) Command(c *commands.Call, why *protocol.Error) {
	who := c.Principal
	if c.Client == "" && who.Kind != protocol.KindAgent && who.Kind != protocol.KindSkill {
		return
	}
	f := doctor.Fault{Kind: doctor.CommandRefused, Party: who.Party(), Client: c.Client, Topic: c.Command, Reason: why.Message, Code: string(why.Code)}
	if why.Code == protocol.RequestExpired {
		f.Kind = doctor.ClockWrong
	}
	if c.Address.IsValid() {
		f.From = c.Address.String()
	}
	w.Doctor.NoteAndTell(f)
}

// Unreported sees a report of an agent's state that was refused.
func (w *Witness) Unreported(who protocol.Party, agent protocol.AgentID, why *protocol.Error) {
	f := doctor.Fault{Kind: doctor.StateRefused, Party: who, Reason: why.Message, Code: string(why.Code)}
	if why.Code != protocol.PermissionDenied && why.Code != protocol.NotFound {
		f.Agent = agent
	}
	w.Doctor.NoteAndTell(f)
}

// kinds of mistakes.
var kinds = map[ask.Mistake]doctor.Kind{
	ask.Unreadable: doctor.AnswerUnreadable, ask.Unasked: doctor.AnswerUnasked, ask.Late: doctor.AnswerLate, ask.Foreign: doctor.AnswerForeign,
	ask.Unfit: doctor.AnswerUnfit, ask.UnknownEvent: doctor.UnknownEvent, ask.Silent: doctor.NoAnswer,
}

// Mistaken sees a mistake of a registered agent.
func (w *Witness) Mistaken(agent ask.AgentKey, what ask.Mistake, reason string) {
	w.Doctor.NoteAndTell(doctor.Fault{Kind: kinds[what], Party: agent.ID.Party(agent.Space), Agent: agent.ID, Reason: reason})
}
