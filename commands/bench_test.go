package commands_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

type invokeParams struct {
	SkillID      protocol.SkillID      `json:"skill_id"`
	CapabilityID protocol.CapabilityID `json:"capability_id"`
	Params       json.RawMessage       `json:"params,omitempty" type:"object"`
}

func (p invokeParams) Target() commands.Resource {
	return commands.Resource{Type: "skill", ID: string(p.SkillID)}
}

type invokeResult struct {
	SkillID       protocol.SkillID      `json:"skill_id"`
	CapabilityID  protocol.CapabilityID `json:"capability_id"`
	AgentID       protocol.AgentID      `json:"agent_id"`
	Data          json.RawMessage       `json:"data"`
	ExecutionTime int64                 `json:"execution_time"`
}

// memoryClaims are claims that are durable at once.
type memoryClaims struct{}

func (memoryClaims) Claim(context.Context, commands.Claim) error { return nil }
func (memoryClaims) Pending(func(commands.Claim) bool)           {}

func benchRouter(b *testing.B) *commands.Router {
	invoke := commands.New(commands.Spec{Name: "skill.invoke", Summary: "Invoke.", Action: "skill:invoke", Effect: commands.Act, Async: true},
		func(_ context.Context, _ *commands.Call, p invokeParams) (invokeResult, error) {
			return invokeResult{p.SkillID, p.CapabilityID, "agent", p.Params, 1}, nil
		})
	set, err := commands.NewSet(append(commands.Builtin(), invoke)...)
	if err != nil {
		b.Fatal(err)
	}
	return commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}, Claims: memoryClaims{}})
}

// invokeBody is a request of 500 bytes, with an id of its own per i.
func invokeBody(i int) []byte {
	id := fmt.Sprintf("123e4567-e89b-12d3-a456-%012d", i)
	return []byte(`{"version":"0.6.3","id":"` + id + `","timestamp":0,"type":"request","command":"skill.invoke",` +
		`"params":{"skill_id":"temperature_converter_001","capability_id":"celsius_to_fahrenheit","params":{"celsius":25.5,"precision":2,` +
		`"location":{"room":"living room","floor":1,"house":"main"},"samples":[21.5,22.0,22.5,23.0],"note":"periodic reading from the sensor, averaged over a minute"}},` +
		`"metadata":{"sender_id":"agent_123","trace_id":"456e7890-e12b-34d5-a678-901234567890","priority":"high","timeout":30000}}`)
}

func bodies(n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = invokeBody(i)
	}
	return all
}

// BenchmarkSubmit is the router alone: everything but transport and handler,
// as an MQTT client that has many requests in flight pays for it.
func BenchmarkSubmit(b *testing.B) {
	r, who := benchRouter(b), &protocol.Principal{ID: "agent_123", Space: protocol.DefaultSpace}
	all := bodies(b.N)
	done := make(chan struct{}, 64)
	var out []byte
	_ = out
	b.SetBytes(int64(len(all[0])))
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i >= cap(done) {
			<-done
		}
		r.Submit(commands.Inbound{Principal: who, Body: all[i], Door: "mqtt"}, func(resp *protocol.Response) {
			if resp.Err != nil {
				b.Error(resp.Err)
			}
			done <- struct{}{}
		})
	}
}

// BenchmarkHandle is a caller that waits for each answer.
func BenchmarkHandle(b *testing.B) {
	r, who := benchRouter(b), &protocol.Principal{ID: "agent_123", Space: protocol.DefaultSpace}
	all := bodies(b.N)
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		resp := r.Handle(context.Background(), commands.Inbound{Principal: who, Body: all[i], Door: "mqtt"})
		if resp.Err != nil {
			b.Fatal(resp.Err)
		}
		buf = resp.Append(buf[:0])
	}
}

// BenchmarkHandleParallel shows contention.
func BenchmarkHandleParallel(b *testing.B) {
	r := benchRouter(b)
	all := bodies(b.N)
	next := make(chan int, b.N)
	for i := range b.N {
		next <- i
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		who := &protocol.Principal{ID: "agent_123", Space: protocol.DefaultSpace}
		for pb.Next() {
			r.Handle(context.Background(), commands.Inbound{Principal: who, Body: all[<-next], Door: "mqtt"})
		}
	})
}

// BenchmarkReplay answers repeats from memory.
func BenchmarkReplay(b *testing.B) {
	r, who := benchRouter(b), &protocol.Principal{ID: "agent_123", Space: protocol.DefaultSpace}
	body := invokeBody(0)
	b.ReportAllocs()
	for b.Loop() {
		r.Handle(context.Background(), commands.Inbound{Principal: who, Body: body, Door: "mqtt"})
	}
}

func BenchmarkDecodeEnvelope(b *testing.B) {
	body := invokeBody(0)
	b.Log(strconv.Itoa(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := protocol.DecodeRequest(body, protocol.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
