package registry

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

// An agent may answer an invocation of a dispatch before its bridge has the record
// of the dispatch: the answer goes back to the bridge that has handed it over.
func TestAnAnswerGoesBackToWhereTheRequestCameFrom(t *testing.T) {
	t.Parallel()
	voice := overheard{make(chan []byte, 10)}
	w := newWorld(t, func(o *Options) {
		o.Cluster = func(*Service) Voice { return voice }
		o.Owner = func(string) (ask.Bridge, bool) { return ask.Bridge{}, false }
	})
	device := w.device("d", tool, nil)
	const id = "0198a000-0000-7000-8000-000000000000-0"
	request := fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":0,"type":"request","command":"skill.invoke","params":{"skill_id":"tool","capability_id":"do"},"metadata":{}}`, id)
	w.Said(ask.Bridge{ID: "there", Epoch: 7}, message(1, fmt.Sprintf(`{"id":%q,"space":%q,"agent":"d","expiry_ms":60000}`, id, protocol.DefaultSpace), request))
	device.succeed(waitFor(t, device, 1), `{"on":true}`)
	select {
	case said := <-voice.said:
		if said[0] != 2 || !bytes.Contains(said, []byte(`{"on":true}`)) {
			t.Errorf("the other bridge is told %q", said)
		}
	case <-time.After(eventually.Patience):
		t.Fatal("the other bridge is told nothing")
	}
	if n := w.dropped("unknown"); n != 0 {
		t.Errorf("%v answers were dropped", n)
	}
}
