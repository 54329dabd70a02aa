package app

import (
	"context"
	"slices"
	"testing"

	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/audit"
)

// loginsKept notes what is recorded, and how.
type loginsKept []string

func (k *loginsKept) Record(_ context.Context, e audit.Entry) {
	*k = append(*k, e.Door+" at once")
}

func (k *loginsKept) RecordHeld(_ context.Context, e audit.Entry) {
	*k = append(*k, e.Door+" held")
}

// The reader of an MQTT connection lets clients in, and must not wait for the
// disk; by other doors nobody calls Keep.
func TestLoginsByMQTTAreHeldAndOthersAreNot(t *testing.T) {
	var kept loginsKept
	l := newLoginRecord(&kept)
	for _, door := range []string{mqttdoor.Name, "http", mqttdoor.Name, "ws"} {
		who := &protocol.Principal{ID: "p", Credential: "k", Method: protocol.MethodAPIKey}
		l.settled(t.Context(), security.Attempt{Door: door, Who: who})
	}
	if want := []string{"mqtt held", "http at once", "ws at once"}; !slices.Equal(kept, want) {
		t.Errorf("recorded %q, want %q", kept, want)
	}
}
