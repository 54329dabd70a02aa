package audit

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// BenchmarkAudit measures a recorded skill.invoke of 500 bytes all in all, one of many
// that are alike, written at once, or held and written with others.
func BenchmarkAudit(b *testing.B) {
	for _, together := range []int{1, 16} {
		b.Run(fmt.Sprintf("together=%d", together), func(b *testing.B) {
			trail := openTrail(b, nil)
			a := benchCall()
			a.Held = together > 1
			a.Digest, a.Memo = trail.Digest(a.Params), new(commands.Memo)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				trail.Audit(a)
				if n%together == 0 {
					trail.Keep()
				}
			}
			if err := trail.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			shut(b, trail)
		})
	}
}

func benchCall() commands.Audited {
	return commands.Audited{
		At: time.Now(), Principal: &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: "default", Credential: "0123456789abcdef", Method: "apikey"},
		SenderID: "alice", RequestID: "3f0c0a4e-6a0e-4d4a-9d39-8d2f3f5c9a11", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Door: "mqtt",
		Address: netip.MustParseAddr("192.0.2.1"), Command: "skill.invoke", Action: "skill:invoke", Effect: commands.Act,
		Resource: commands.Resource{Type: "skill", ID: "thermostat"},
		Params:   []byte(`{"skill_id":"thermostat","capability_id":"set","params":{"text":"` + string(bytes.Repeat([]byte("x"), 430)) + `"}}`),
		Loggable: []string{"skill_id", "capability_id"}, Executed: true,
	}
}
