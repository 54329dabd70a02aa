package protocol_test

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// invocation is a skill.invoke request of 500 bytes, as the speed goal of the
// project has it.
var invocation = func() []byte {
	head := `{"version":"0.6.3","id":"123e4567-e89b-42d3-a456-426614174000","timestamp":1737000000000,"type":"request",` +
		`"command":"skill.invoke","params":{"skill_id":"temperature_converter_001","capability_id":"celsius_to_fahrenheit",` +
		`"params":{"celsius":25.5,"round":true,"labels":["kitchen","north"],"note":"`
	tail := `"}},"metadata":{"sender_id":"agent-123","trace_id":"456e7890-e12b-44d5-a678-901234567890","priority":"high","timeout":30000}}`
	return []byte(head + strings.Repeat("x", 500-len(head)-len(tail)) + tail)
}()

func BenchmarkDecodeRequest(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(invocation)))
	for b.Loop() {
		if _, err := protocol.DecodeRequest(invocation, protocol.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(invocation)))
	buf := make([]byte, 0, 1024)
	for b.Loop() {
		r, err := protocol.DecodeRequest(invocation, protocol.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		buf = r.Append(buf[:0])
	}
}

func BenchmarkCheckJSON(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(invocation)))
	for b.Loop() {
		if err := protocol.CheckJSON(invocation, protocol.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckJSONManyKeys(b *testing.B) {
	var sb strings.Builder
	sb.WriteString(`{"k":0`)
	for i := range 10000 {
		sb.WriteString(`,"k` + strings.Repeat("0", i%7) + strings.Repeat("1", i/7%9) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + `":1`)
	}
	data := []byte(sb.String() + "}")
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := protocol.CheckJSON(data, protocol.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendResponse(b *testing.B) {
	r := &protocol.Response{
		ID: "123e4567-e89b-42d3-a456-426614174000", Timestamp: 1737000000100,
		Result:   []byte(`{"skill_id":"temperature_converter_001","capability_id":"celsius_to_fahrenheit","agent_id":"agent-1","data":{"fahrenheit":77.9},"execution_time":12}`),
		Metadata: protocol.Metadata{SenderID: "bridge-1", TraceID: "456e7890-e12b-44d5-a678-901234567890"},
	}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = r.Append(buf[:0])
	}
}

func BenchmarkDecodeResponse(b *testing.B) {
	r := &protocol.Response{
		ID: "123e4567-e89b-42d3-a456-426614174000", Timestamp: 1737000000100,
		Result:   []byte(`{"skill_id":"temperature_converter_001","capability_id":"celsius_to_fahrenheit","agent_id":"agent-1","data":{"fahrenheit":77.9},"execution_time":12}`),
		Metadata: protocol.Metadata{SenderID: "bridge-1", TraceID: "456e7890-e12b-44d5-a678-901234567890"},
	}
	data := r.Append(nil)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := protocol.DecodeResponse(data, protocol.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
