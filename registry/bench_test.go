package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry/ask"
)

const manySkills = 100_000

// record makes the skill of one of many devices, as a table holds it.
func record(t testing.TB, i int) *SkillRecord {
	t.Helper()
	text := fmt.Sprintf(`{"skill_id":"thermostat-%06d","name":"Thermostat %d","description":"Keeps room %d at the temperature it is told","version":"1.2.%d",
		"type":"custom","endpoints":["mqtt://10.0.%d.%d:1883"],"space_id":"default","owner":"alice","providers":[{"agent_id":"agent-%06d","owner":"alice"}],
		"registered_at":1737000000000,"updated_at":1737000000000,"capabilities":[
		{"capability_id":"set","idempotent":true,"params_schema":{"type":"object","required":["celsius"],"properties":{"celsius":{"type":"number","minimum":5,"maximum":30}}}},
		{"capability_id":"group-%d"}]}`, i, i, i, i%10, i/256%256, i%256, i, i%1000)
	var r SkillRecord
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// filled makes a service that knows many skills.
func filled(t testing.TB, n int) *Service {
	t.Helper()
	skills := recordstest.New[SkillRecord]()
	s, err := New(Options{
		Agents: recordstest.New[Agent](), Skills: skills, Resources: recordstest.New[ResourceRecord](),
		Publisher: &fakeMQTT{retained: map[string][]byte{}}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		r := record(t, i*7919%n) // in no particular order
		if _, err := skills.Create(context.Background(), tableKey(r.Space, r.ID), r); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestASkillTakesLittleMemory(t *testing.T) {
	const sample, most = 20_000, 1600 // bytes each
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := filled(t, sample)
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (after.HeapAlloc - before.HeapAlloc) / sample
	t.Logf("a skill takes %d bytes, %d of them %d MiB", each, manySkills, each*manySkills>>20)
	if each > most {
		t.Errorf("a skill takes %d bytes, at most %d are due", each, most)
	}
	runtime.KeepAlive(s)
}

func BenchmarkDiscover(b *testing.B) {
	s := filled(b, manySkills)
	call := &commands.Call{Principal: alice}
	for name, p := range map[string]DiscoverSkillsParams{
		"by rare capability":   {Capability: "group-7"},
		"by common capability": {Capability: "set"},
		"last page of all":     {Page: listing.Page{Cursor: "thermostat-099899"}},
		"by text":              {Text: "room 4711"},
		"by text, common":      {Text: "temperature"},
	} {
		p.Limit = 100
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r, err := s.DiscoverSkills(b.Context(), call, p); err != nil || r.Total == 0 {
					b.Fatal(r, err)
				}
			}
		})
	}
}

func BenchmarkIndexing(b *testing.B) {
	records := make([]*SkillRecord, 0, manySkills)
	for i := range manySkills {
		records = append(records, record(b, i*7919%manySkills))
	}
	for b.Loop() {
		x := newIndex()
		for _, r := range records {
			x.skillChanged("", nil, r)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/100k")
}

// BenchmarkInvoke is everything the registry does for a call: finding,
// checking, forwarding, correlating, checking again.
func BenchmarkInvoke(b *testing.B) {
	var d *device
	w := newWorld(b, func(o *Options) {
		o.Publisher = publishFunc(func(_ protocol.Recipients, m protocol.Message) (int, error) {
			if len(m.CorrelationData) == 0 { // a card, an event
				return 0, nil
			}
			go func(id string) { d.succeed(&protocol.Request{ID: id}, `{"celsius":20}`) }(string(m.CorrelationData))
			return 1, nil
		})
	})
	d = w.device("boiler", heating, nil)
	p := InvokeSkillParams{SkillID: "heating", CapabilityID: "set", Params: json.RawMessage(`{"celsius":21.5}`)}
	b.ReportAllocs()
	for b.Loop() {
		call := &commands.Call{Principal: alice, TraceID: "trace", Deadline: time.Now().Add(time.Minute)}
		if _, err := w.InvokeSkill(b.Context(), call, p); err != nil {
			b.Fatal(err)
		}
	}
}

type publishFunc func(protocol.Recipients, protocol.Message) (int, error)

func (f publishFunc) Publish(to protocol.Recipients, m protocol.Message) (int, error) {
	return f(to, m)
}

func BenchmarkHeartbeat(b *testing.B) {
	board := newBoard(protocol.NewTopics(""), 30*time.Second, func(*Agent, bool, string) {})
	keys := make([]ask.AgentKey, 0, 100_000)
	for i := range cap(keys) {
		a := &Agent{ID: protocol.AgentID(fmt.Sprintf("agent-%d", i)), Space: "default", Owner: alice.Party()}
		board.agentChanged("", nil, a)
		keys = append(keys, a.Key())
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		board.renew(keys[i%len(keys)], "", nil, alice)
		i++
	}
}
