package sparkplug

import (
	"bytes"
	"encoding/binary"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

type server struct {
	inspectors map[string]broker.Inspector
	published  []protocol.Message
	to         []protocol.Recipients
}

func (s *server) Inspect(filter string, by broker.Inspector) { s.inspectors[filter] = by }

func (s *server) Publish(to protocol.Recipients, m protocol.Message) (int, error) {
	s.published, s.to = append(s.published, m), append(s.to, to)
	return 0, nil
}

func (s *server) Retained(string) iter.Seq2[string, protocol.SpaceID] {
	return func(yield func(string, protocol.SpaceID) bool) { yield(Certificates+"spBv1.0/g/NBIRTH/old", "default") }
}

// [tck-id-conformance-mqtt-aware-store] [tck-id-conformance-mqtt-aware-nbirth-mqtt-topic] [tck-id-conformance-mqtt-aware-nbirth-mqtt-retain]
// [tck-id-conformance-mqtt-aware-dbirth-mqtt-topic] [tck-id-conformance-mqtt-aware-dbirth-mqtt-retain]
func TestBirthCertificatesAreKept(t *testing.T) {
	t.Parallel()
	s := &server{inspectors: map[string]broker.Inspector{}}
	Attend(s, slog.New(slog.DiscardHandler))
	client := broker.NewClient("edge", &protocol.Principal{Space: "plant"})
	for filter, topic := range map[string]string{NodeBirths: "spBv1.0/g/NBIRTH/n", DeviceBirths: "spBv1.0/g/DBIRTH/n/d"} {
		i := &broker.Inspection{Client: client, Topic: topic, Payload: []byte("born")}
		if v := s.inspectors[filter](i); !v.Allowed() {
			t.Error(v)
		}
		m, to := s.published[len(s.published)-1], s.to[len(s.to)-1]
		if m.Topic != "$sparkplug/certificates/"+topic || !m.Retain || string(m.Payload) != "born" || to.Space() != "plant" {
			t.Errorf("%+v to %+v", m, to)
		}
	}
}

func TestCertificatesAreBounded(t *testing.T) {
	t.Parallel()
	k := &keeper{known: map[protocol.SpaceID]map[string]bool{}}
	for i := range most {
		if !k.room("a", string(binary.AppendUvarint(nil, uint64(i)))) {
			t.Fatal(i)
		}
	}
	if k.room("a", "one more") || !k.room("a", "\x00") || !k.room("b", "one more") {
		t.Error("the bound is another")
	}
}

// [tck-id-conformance-mqtt-aware-ndeath-timestamp]
func TestDeathCertificatesGetTheTime(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	metric := []byte{0x12, 0x03, 0x0A, 0x01, 'x'} // metrics
	seq := []byte{0x18, 0x07}
	old := append([]byte{0x08, 0x2A}, append(metric, seq...)...)
	want := append(binary.AppendUvarint([]byte{0x08}, 1_700_000_000_000), append(metric, seq...)...)
	if got, ok := restamp(old, at); !ok || !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
	if got, ok := restamp(append(metric, seq...), at); !ok || !bytes.Equal(got, want) {
		t.Errorf("without one: % x", got)
	}
	for _, broken := range [][]byte{{0x08}, {0x12, 0x05, 1}, {0x0B}, {0x00}, {0xFF}, {0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}, {0x11, 1}} {
		if got, ok := restamp(broken, at); ok {
			t.Errorf("% x becomes % x", broken, got)
		}
	}
}

func FuzzRestamp(f *testing.F) {
	f.Add([]byte{0x08, 0x2A, 0x12, 0x01, 0x00})
	f.Fuzz(func(t *testing.T, payload []byte) {
		at := time.UnixMilli(1)
		once, ok := restamp(payload, at)
		if !ok {
			return
		}
		if again, ok := restamp(once, at); !ok || !bytes.Equal(once, again) {
			t.Errorf("% x, then % x", once, again)
		}
	})
}
