package events

import (
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// A Publisher publishes events of security to operators, on their topic.
type Publisher struct {
	Publish  func(to protocol.Recipients, m protocol.Message) (receivers int, err error)
	Topic    string
	BridgeID string
	Log      *slog.Logger

	certificates atomic.Uint64 // published events of certificates
}

// Entry publishes an entry of the audit trail in the space of its principal.
func (p *Publisher) Entry(e audit.Entry) {
	e.Digest = ""
	p.tell(listenersTo(&e), protocol.Event{
		Timestamp: e.Time.UnixMilli(), Name: e.Event, Seq: e.Seq, Metadata: protocol.Metadata{TraceID: e.TraceID},
	}, e)
}

// Certificate publishes an event of a certificate to administrators.
func (p *Publisher) Certificate(name string, data any) {
	p.tell(protocol.Administrators(), protocol.Event{Timestamp: time.Now().UnixMilli(), Name: name, Seq: p.certificates.Add(1)}, data)
}

// listenersTo are the recipients of an entry.
func listenersTo(e *audit.Entry) protocol.Recipients {
	switch {
	case e.Principal == "":
		return protocol.Administrators()
	case e.Space == "":
		return protocol.Everybody(protocol.DefaultSpace)
	}
	return protocol.Everybody(e.Space)
}

func (p *Publisher) tell(to protocol.Recipients, e protocol.Event, about any) {
	data, err := json.Marshal(about)
	if err != nil {
		p.Log.Warn("an event of security cannot be written as JSON", "event", e.Name, "error", err)
		return
	}
	e.Version, e.ID, e.Data, e.Metadata.SenderID = protocol.Version, protocol.NewID(), data, p.BridgeID
	if _, err := p.Publish(to, protocol.Message{Topic: p.Topic, Payload: e.Append(nil), ContentType: protocol.ContentJSON}); err != nil {
		p.Log.Warn("an event of security is not published", "event", e.Name, "error", err)
	}
}
