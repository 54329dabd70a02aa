package commands_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
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

// benchRouter remembers only as many requests as it takes to be in a steady
// state after a moment.
func benchRouter(b *testing.B) *commands.Router {
	invoke := commands.New(commands.Spec{Name: "skill.invoke", Summary: "Invoke.", Action: "skill:invoke", Effect: commands.Act, Async: true},
		func(_ context.Context, _ *commands.Call, p invokeParams) (invokeResult, error) {
			return invokeResult{p.SkillID, p.CapabilityID, "agent", p.Params, 1}, nil
		})
	set, err := commands.NewSet(append(commands.Builtin(), invoke)...)
	if err != nil {
		b.Fatal(err)
	}
	r := commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}, Claims: memoryClaims{}, MaxRemembered: 1 << 14})
	b.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return r
}

// A request is an envelope of 500 bytes whose id changes from use to use.
type request struct {
	body []byte
	id   []byte // within body
}

func newRequest() *request {
	const id = "123e4567-e89b-12d3-a456-000000000000"
	body := []byte(`{"version":"0.6.3","id":"` + id + `","timestamp":0,"type":"request","command":"skill.invoke",` +
		`"params":{"skill_id":"temperature_converter_001","capability_id":"celsius_to_fahrenheit","params":{"celsius":25.5,"precision":2,` +
		`"location":{"room":"living room","floor":1},"samples":[21.5,22.0,22.5,23.0],"note":"periodic reading, averaged over a minute"}},` +
		`"metadata":{"sender_id":"agent_123","trace_id":"456e7890-e12b-34d5-a678-901234567890","priority":"high","timeout":30000}}`)
	at := bytes.Index(body, []byte(id))
	return &request{body, body[at : at+len(id)]}
}

// inbound is the request with an id of its own.
func (r *request) inbound(who *protocol.Principal) commands.Inbound {
	for i := len(r.id) - 1; ; i-- {
		if r.id[i] == '9' {
			r.id[i] = '0'
			continue
		}
		r.id[i]++
		return commands.Inbound{Principal: who, Body: r.body, Door: "mqtt"}
	}
}

var sensor = &protocol.Principal{ID: "agent_123", Space: protocol.DefaultSpace}

// BenchmarkSubmit is the router alone: everything but transport and handler,
// for a client that has 64 requests in flight. Encoding the answer is part of
// it.
func BenchmarkSubmit(b *testing.B) {
	r, req := benchRouter(b), newRequest()
	room := make(chan []byte, 64)
	for range cap(room) {
		room <- make([]byte, 0, 1024)
	}
	b.SetBytes(int64(len(req.body)))
	b.ReportAllocs()
	for b.Loop() {
		buffer := <-room
		r.Submit(req.inbound(sensor), func(resp *protocol.Response) {
			if resp.Err != nil {
				b.Error(resp.Err)
			}
			room <- resp.Append(buffer[:0])
		})
	}
}

// BenchmarkHandle is a caller that waits for each answer: it adds two changes
// of goroutines.
func BenchmarkHandle(b *testing.B) {
	r, req := benchRouter(b), newRequest()
	buffer := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		resp := r.Handle(context.Background(), req.inbound(sensor))
		if resp.Err != nil {
			b.Fatal(resp.Err)
		}
		buffer = resp.Append(buffer[:0])
	}
}

// BenchmarkHandleParallel shows contention.
func BenchmarkHandleParallel(b *testing.B) {
	r := benchRouter(b)
	var clients atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		who := &protocol.Principal{ID: fmt.Sprint("agent_123", clients.Add(1)), Space: protocol.DefaultSpace}
		for req := newRequest(); pb.Next(); {
			r.Handle(context.Background(), req.inbound(who))
		}
	})
}

// BenchmarkReplay answers repeats from memory.
func BenchmarkReplay(b *testing.B) {
	r, req := benchRouter(b), newRequest()
	in := req.inbound(sensor)
	b.ReportAllocs()
	for b.Loop() {
		r.Handle(context.Background(), in)
	}
}
