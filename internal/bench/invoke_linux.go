package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// Invoke compares skill.invoke through a bridge, from one MQTT client to another, with
// bare request and reply between the same two through brokers that only carry it: same
// machine, same minute, same clients, requests and answers of the same size. The bridge
// validates, authorizes, claims, deduplicates, checks the params and the result against
// schemas, and correlates; each call is different, and every answer is checked.
func Invoke(ctx context.Context, o InvokeOptions) (Report, error) {
	if err := o.setDefaults(); err != nil {
		return Report{}, err
	}
	return MQTT(ctx, o.options())
}

// The requests to the bridge.
const (
	benchAgent = "bench-agent"
	benchSkill = "bench"
	benchEcho  = "echo"
)

// numbered is the name of one of several agents, or of its skill.
func numbered(name string, i int) string {
	if i == 0 {
		return name
	}
	return name + "-" + strconv.Itoa(i)
}

// enroll registers agents, each with a skill of its own.
func enroll(ctx context.Context, address string, agents int) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, "mqtt://"+address)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range agents {
		if err := enrollOne(ctx, c, numbered(benchAgent, i), numbered(benchSkill, i)); err != nil {
			return err
		}
	}
	return nil
}

func enrollOne(ctx context.Context, c *client.Client, agentID, skillID string) error {
	agent := map[string]any{"agent_id": agentID, "type": "end_agent"}
	if _, err := client.Call[map[string]any](ctx, c, "agent.register", agent); err != nil {
		return fmt.Errorf("agent.register: %w", err)
	}
	schema := map[string]any{
		"type": "object", "required": []string{"n"},
		"properties": map[string]any{"n": map[string]any{"type": "string", "minLength": 16, "maxLength": 16}, "text": map[string]any{"type": "string"}},
	}
	skill := map[string]any{"agent_id": agentID, "skill": map[string]any{
		"skill_id": skillID, "name": "Bench", "description": "answers", "version": "1.0.0", "type": "custom",
		"capabilities": []any{map[string]any{"capability_id": benchEcho, "params_schema": schema, "result_schema": schema}},
	}}
	if _, err := client.Call[map[string]any](ctx, c, "skill.register", skill); err != nil {
		return fmt.Errorf("skill.register: %w", err)
	}
	return nil
}

// connectInvoke opens the connections of the agents and of their callers.
func (r *rig) connectInvoke() error {
	topics := protocol.NewTopics("")
	s := r.scenario
	agents := max(s.Agents, 1)
	for i := range agents {
		name := numbered(benchAgent, i)
		agent := &agent{load: r.load, name: name, topic: topics.AgentResponse(protocol.AgentID(name)), size: s.Payload, start: r.hearing.start}
		if !r.target.silent {
			if _, err := r.dialAs(r.hearing, name, topics.AgentRequest(protocol.AgentID(name)), agent); err != nil {
				return err
			}
		}
	}
	if s.Over.isWeb() {
		return r.connectWeb()
	}
	for i := range s.Publishers {
		id := "bench-caller-" + strconv.Itoa(i)
		role := newCaller(r.load, s, topics, id, numbered(benchSkill, i%agents), r.asking.start, &r.latency)
		c, err := r.dialAs(r.asking, id, topics.ClientResponse(id), role)
		if err != nil {
			return err
		}
		r.enlist(role, c)
	}
	return nil
}

// A call is a request envelope with the few things in it that change.
type call struct {
	atNumber, atSent, atTimestamp, atParam int

	start time.Time // origin of the times of sending
}

// newCaller is a requester that invokes the skill. The id of a request is its
// number and the time of sending.
func newCaller(l *load, s Scenario, topics protocol.Topics, clientID, skillID string, start time.Time, h *histogram) *requester {
	k := call{start: start}
	b := k.envelope(s.Payload, skillID, clientID)

	responseTopic := appendText([]byte{0x08}, topics.ClientResponse(clientID))
	properties := append(responseTopic, appendText([]byte{0x09}, clientID)...) // and Correlation Data
	return &requester{
		load: l, qos: s.QoS, window: s.Window, chained: s.Rate == 0, latency: h,
		t:     publishTemplate(version5, topics.BridgeRequest(), s.QoS, properties, b),
		write: k.write,
		read:  func(answer []byte) (uint64, int64, bool) { return readAnswer(l, answer) },
	}
}

// envelope returns a request of a size, and sets the offsets of its variable fields.
func (k *call) envelope(size int, skillID, traceID string) []byte {
	const hex16, millis = "0000000000000000", "0000000000000"
	b := []byte(`{"version":"` + protocol.Version + `","id":"`)
	k.atNumber, b = len(b), append(b, hex16...)
	k.atSent, b = len(b), append(b, hex16...)
	b = append(b, `","timestamp":`...)
	k.atTimestamp, b = len(b), append(b, millis...)
	b = append(b, `,"type":"request","command":"skill.invoke","params":{"skill_id":"`+skillID+`","capability_id":"`+benchEcho+`","params":{"n":"`...)
	k.atParam, b = len(b), append(b, hex16...)
	b = append(b, `","text":"`...)
	tail := `"}},"metadata":{"trace_id":"` + traceID + `","priority":"medium","timeout":30000}}`
	b = append(b, bytes.Repeat([]byte("x"), max(size-len(b)-len(tail), 0))...)
	return append(b, tail...)
}

func (k call) write(payload []byte, number uint64, now int64) {
	putHex(payload[k.atNumber:], number)
	putHex(payload[k.atSent:], uint64(now))
	putHex(payload[k.atParam:], number)
	putMillis(payload[k.atTimestamp:], k.start.UnixMilli()+now/int64(time.Millisecond))
}

// readAnswer reads the number and the time of sending from a response envelope. Any
// other response than a success with the sent data is a fault, of which the first is
// kept.
func readAnswer(l *load, answer []byte) (number uint64, sent int64, ok bool) {
	id, rest, ok1 := textFrom(answer, `"id":"`)
	_, rest, ok2 := bytes.Cut(rest, []byte(`"status":"success"`))
	n, _, ok3 := textFrom(rest, `"data":{"n":"`)
	if ok1 && ok2 && ok3 && len(id) == 32 && bytes.Equal(id[:16], n) {
		number, ok1 = getHex(id)
		at, ok2 := getHex(id[16:])
		return number, int64(at), ok1 && ok2
	}
	text := string(answer[:min(len(answer), 400)])
	l.complaint.CompareAndSwap(nil, &text)
	return 0, 0, false
}

// An agent answers invocations with the number it was given and some text.
type agent struct {
	load  *load
	name  string
	topic string
	size  int       // of an answer
	start time.Time // origin of the loop's clock
	t     template  // of an answer
	at    answerOffsets
	id    int // length of the ids that it is for
	replier
}

// answerOffsets are the offsets in an answer of the parts that change.
type answerOffsets struct{ id, millis, number int }

func (a *agent) packet(c *conn, first byte, body []byte) {
	if first == packetPuback {
		a.acknowledged(c)
		return
	}
	p, ok := parsePublish(c.version, first, body)
	if first&0xF0 != packetPublish || !ok {
		c.end(fmt.Errorf("the agent was sent % x", first))
		return
	}
	acknowledge(c, p)
	// The command stands before the params, so that little is searched.
	id, rest, ok1 := textFrom(p.payload, `"id":"`)
	_, rest, ok2 := bytes.Cut(rest, []byte(`"command":"skill.invoke"`))
	n, _, ok3 := textFrom(rest, `"n":"`)
	if !ok1 || !ok2 || !ok3 || len(n) != 16 {
		text := "the agent was asked " + string(p.payload[:min(len(p.payload), 400)])
		a.load.complaint.CompareAndSwap(nil, &text)
		return
	}
	a.publish(c, a.answer(c, id, n))
}

// answer is the PUBLISH of a response envelope, good until the next one.
func (a *agent) answer(c *conn, id, n []byte) []byte {
	if a.id != len(id) {
		a.prepare(len(id))
	}
	payload := a.t.packet[a.t.payload:]
	copy(payload[a.at.id:], id)
	copy(payload[a.at.number:], n)
	putMillis(payload[a.at.millis:], a.start.UnixMilli()+c.loop.now/int64(time.Millisecond))
	a.t.setID(c.nextID())
	return a.t.packet
}

// prepare makes the template of answers to ids of a length.
func (a *agent) prepare(length int) {
	a.id = length
	b := []byte(`{"version":"` + protocol.Version + `","id":"`)
	a.at.id, b = len(b), append(b, make([]byte, length)...)
	b = append(b, `","timestamp":`...)
	a.at.millis, b = len(b), append(b, "0000000000000"...)
	b = append(b, `,"type":"response","status":"success","result":{"n":"`...)
	a.at.number, b = len(b), append(b, "0000000000000000"...)
	b = append(b, `","text":"`...)
	tail := `"},"error":null,"metadata":{"sender_id":"` + a.name + `"}}`
	b = append(b, bytes.Repeat([]byte("x"), max(a.size-len(b)-len(tail), 0))...)
	a.t = publishTemplate(version5, a.topic, 1, nil, append(b, tail...))
}

// textFrom returns the text between the first occurrence of a key and the next quote,
// and the rest.
func textFrom(b []byte, key string) (text, rest []byte, ok bool) {
	_, b, ok = bytes.Cut(b, []byte(key))
	if !ok {
		return nil, nil, false
	}
	return bytes.Cut(b, []byte{'"'})
}

// putMillis writes a time in Unix milliseconds, which has thirteen digits
// until the year 2286.
func putMillis(b []byte, millis int64) {
	for i := 12; i >= 0; i-- {
		b[i] = byte('0' + millis%10)
		millis /= 10
	}
}
