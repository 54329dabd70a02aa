package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// Invoke compares skill.invoke through a bridge, from one MQTT client to
// another, with bare request and reply between the same two through brokers
// that only carry it: same machine, same minute, same clients, requests and
// answers of the same size. The bridge validates, authorizes, claims,
// deduplicates, checks the params and the result against schemas, and
// correlates; each call is another one, and every answer is looked at.
func Invoke(ctx context.Context, o InvokeOptions) (Report, error) {
	if err := o.setDefaults(); err != nil {
		return Report{}, err
	}
	return MQTT(ctx, o.options())
}

// What the bridge is asked for.
const (
	benchAgent = "bench-agent"
	benchSkill = "bench"
	benchEcho  = "echo"
)

// enroll registers the agent and its skill.
func enroll(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, "mqtt://"+address)
	if err != nil {
		return err
	}
	defer c.Close()
	agent := map[string]any{"agent_id": benchAgent, "type": "end_agent"}
	if _, err := client.Call[map[string]any](ctx, c, "agent.register", agent); err != nil {
		return fmt.Errorf("agent.register: %w", err)
	}
	schema := map[string]any{
		"type": "object", "required": []string{"n"},
		"properties": map[string]any{"n": map[string]any{"type": "string", "minLength": 16, "maxLength": 16}, "text": map[string]any{"type": "string"}},
	}
	skill := map[string]any{"agent_id": benchAgent, "skill": map[string]any{
		"skill_id": benchSkill, "name": "Bench", "description": "answers", "version": "1.0.0", "type": "custom",
		"capabilities": []any{map[string]any{"capability_id": benchEcho, "params_schema": schema, "result_schema": schema}},
	}}
	if _, err := client.Call[map[string]any](ctx, c, "skill.register", skill); err != nil {
		return fmt.Errorf("skill.register: %w", err)
	}
	return nil
}

// connectInvoke opens the connections of the agent and of those who call it.
func (r *rig) connectInvoke() error {
	topics := protocol.NewTopics("")
	s := r.scenario
	agent := &agent{load: r.load, topic: topics.AgentResponse(benchAgent), size: s.Payload}
	if _, err := r.dialAs(r.hearing, benchAgent, topics.AgentRequest(benchAgent), agent); err != nil {
		return err
	}
	for i := range s.Publishers {
		id := "bench-caller-" + strconv.Itoa(i)
		role := newCaller(r.load, s, topics, id, &r.latency)
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
}

// newCaller is a requester that invokes the skill. The id of a request is its
// number and the time of sending.
func newCaller(l *load, s Scenario, topics protocol.Topics, clientID string, h *histogram) *requester {
	var k call
	const hex16, millis = "0000000000000000", "0000000000000"
	b := []byte(`{"version":"` + protocol.Version + `","id":"`)
	k.atNumber, b = len(b), append(b, hex16...)
	k.atSent, b = len(b), append(b, hex16...)
	b = append(b, `","timestamp":`...)
	k.atTimestamp, b = len(b), append(b, millis...)
	b = append(b, `,"type":"request","command":"skill.invoke","params":{"skill_id":"`+benchSkill+`","capability_id":"`+benchEcho+`","params":{"n":"`...)
	k.atParam, b = len(b), append(b, hex16...)
	b = append(b, `","text":"`...)
	tail := `"}},"metadata":{"trace_id":"` + clientID + `","priority":"medium","timeout":30000}}`
	b = append(b, bytes.Repeat([]byte("x"), max(s.Payload-len(b)-len(tail), 0))...)
	b = append(b, tail...)

	responseTopic := appendText([]byte{0x08}, topics.ClientResponse(clientID))
	properties := append(responseTopic, appendText([]byte{0x09}, clientID)...) // and Correlation Data
	return &requester{
		load: l, qos: s.QoS, window: s.Window, chained: s.Rate == 0, latency: h,
		t:     publishTemplate(version5, topics.BridgeRequest(), s.QoS, properties, b),
		write: k.write,
		read:  func(answer []byte) (uint64, int64, bool) { return readAnswer(l, answer) },
	}
}

func (k call) write(payload []byte, number uint64, now int64) {
	putHex(payload[k.atNumber:], number)
	putHex(payload[k.atSent:], uint64(now))
	putHex(payload[k.atParam:], number)
	var millis [20]byte // thirteen digits, until the year 2286
	copy(payload[k.atTimestamp:], strconv.AppendInt(millis[:0], time.Now().UnixMilli(), 10))
}

// readAnswer finds the number and the time of sending in a response envelope.
// Anything but a success with the very data that was sent is not believed,
// and the first of it kept.
func readAnswer(l *load, answer []byte) (number uint64, sent int64, ok bool) {
	id, ok1 := textAfter(answer, `"id":"`)
	n, ok2 := textAfter(answer, `"data":{"n":"`)
	if ok1 && ok2 && len(id) == 32 && bytes.Contains(answer, []byte(`"status":"success"`)) && bytes.Equal(id[:16], n) {
		number, ok1 = getHex(id)
		at, ok2 := getHex(id[16:])
		return number, int64(at), ok1 && ok2
	}
	text := string(answer[:min(len(answer), 400)])
	l.complaint.CompareAndSwap(nil, &text)
	return 0, 0, false
}

// textAfter is the text from behind the first occurrence of a key to the next
// quote.
func textAfter(b []byte, key string) (text []byte, ok bool) {
	_, rest, ok := bytes.Cut(b, []byte(key))
	if !ok {
		return nil, false
	}
	text, _, ok = bytes.Cut(rest, []byte{'"'})
	return text, ok
}

// An agent answers invocations with the number it was given and some text.
type agent struct {
	load  *load
	topic string
	size  int // of an answer
	reply []byte
	replier
}

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
	id, ok1 := textAfter(p.payload, `"id":"`)
	n, ok2 := textAfter(p.payload, `"n":"`)
	if !ok1 || !ok2 || !bytes.Contains(p.payload, []byte(`"command":"skill.invoke"`)) {
		text := "the agent was asked " + string(p.payload[:min(len(p.payload), 400)])
		a.load.complaint.CompareAndSwap(nil, &text)
		return
	}
	a.publish(c, a.answer(c.nextID(), id, n))
}

// answer is the PUBLISH of a response envelope, good until the next one.
func (a *agent) answer(packetID uint16, id, n []byte) []byte {
	b := appendText(append(a.reply[:0], 0, 0, 0, 0), a.topic) // room for the header
	b = binary.BigEndian.AppendUint16(b, packetID)
	b = append(b, 0) // no properties
	start := len(b)
	b = append(b, `{"version":"`+protocol.Version+`","id":"`...)
	b = append(b, id...)
	b = append(b, `","timestamp":`...)
	b = strconv.AppendInt(b, time.Now().UnixMilli(), 10)
	b = append(b, `,"type":"response","status":"success","result":{"n":"`...)
	b = append(b, n...)
	b = append(b, `","text":"`...)
	const tail = `"},"error":null,"metadata":{"sender_id":"` + benchAgent + `"}}`
	for len(b)-start < a.size-len(tail) {
		b = append(b, 'x')
	}
	b = append(b, tail...)
	a.reply = b
	// The length takes one to three bytes, so the header begins where it fits.
	header := appendVarint([]byte{packetPublish | 1<<1}, len(b)-4)
	return b[4-len(header):][:copy(b[4-len(header):], header)+len(b)-4]
}
