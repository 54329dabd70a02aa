package events

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// told is the last message of a publisher.
type told struct {
	to    protocol.Recipients
	event protocol.Event
}

func publisher(t *testing.T, last *told) *Publisher {
	return &Publisher{
		Topic: "aibridge/event/security", BridgeID: "bridge-1", Log: slog.New(slog.DiscardHandler),
		Publish: func(to protocol.Recipients, m protocol.Message) (int, error) {
			if m.Topic != "aibridge/event/security" || m.ContentType != protocol.ContentJSON {
				t.Errorf("published on %s as %s", m.Topic, m.ContentType)
			}
			e, err := protocol.DecodeEvent(m.Payload, protocol.Limits{MaxBytes: 1 << 20, MaxDepth: 64})
			if err != nil {
				t.Fatal(err)
			}
			*last = told{to, *e}
			return 1, nil
		},
	}
}

func TestEntriesAreToldInTheSpaceOfWhoDidThem(t *testing.T) {
	var last told
	p := publisher(t, &last)
	at := time.UnixMilli(1_700_000_000_000)
	for _, c := range []struct {
		entry audit.Entry
		to    protocol.Recipients
	}{
		{audit.Entry{}, protocol.Administrators()},
		{audit.Entry{Principal: "anna"}, protocol.Everybody(protocol.DefaultSpace)},
		{audit.Entry{Principal: "anna", Space: "lab"}, protocol.Everybody("lab")},
	} {
		c.entry.Event, c.entry.Seq, c.entry.Time, c.entry.TraceID, c.entry.Digest = "key.created", 7, at, "t-1", "secret"
		p.Entry(c.entry)
		e := last.event
		if last.to != c.to || e.Name != "key.created" || e.Seq != 7 || e.Timestamp != at.UnixMilli() || e.Metadata.SenderID != "bridge-1" || e.Metadata.TraceID != "t-1" || e.ID == "" {
			t.Errorf("%+v was told to %+v as %+v", c.entry, last.to, e)
		}
		var data audit.Entry
		if err := json.Unmarshal(e.Data, &data); err != nil || data.Digest != "" || data.Principal != c.entry.Principal {
			t.Errorf("told %s, %v", e.Data, err)
		}
	}
}

func TestEventsOfCertificatesAreForAdministratorsAndNumbered(t *testing.T) {
	var last told
	p := publisher(t, &last)
	for n := range uint64(2) {
		p.Certificate("cert.revoked", map[string]string{"cert_sn": "1"})
		if last.to != protocol.Administrators() || last.event.Name != "cert.revoked" || last.event.Seq != n+1 || string(last.event.Data) != `{"cert_sn":"1"}` {
			t.Errorf("told %+v: %+v", last.to, last.event)
		}
	}
	last = told{}
	if p.Certificate("cert.revoked", func() {}); last.event.Name != "" {
		t.Errorf("what is no JSON was told: %+v", last.event)
	}
}
