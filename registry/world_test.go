package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// The people of the tests.
var (
	alice = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}
	bob   = &protocol.Principal{Kind: protocol.KindOperator, ID: "bob", Space: protocol.DefaultSpace}
	carol = &protocol.Principal{Kind: protocol.KindOperator, ID: "carol", Space: "lab"}
	root  = &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Roles: []string{protocol.RoleAdministrator}}
)

// A sent message is what the bridge published.
type sent struct {
	to protocol.Recipients
	protocol.Message
}

// A fakeMQTT delivers what the bridge publishes to devices.
type fakeMQTT struct {
	mu       sync.Mutex
	sent     []sent
	retained map[string][]byte
	devices  map[string][]*device // by request topic
	dropped  bool                 // see lose
}

// Publish implements [Publisher].
func (f *fakeMQTT) Publish(to protocol.Recipients, message protocol.Message) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := sent{to, message}
	m.Payload, m.CorrelationData, m.UserProperties = bytes.Clone(m.Payload), bytes.Clone(m.CorrelationData), slices.Clone(m.UserProperties)
	f.sent = append(f.sent, m)
	if m.Retain {
		if f.retained[m.Topic] = m.Payload; len(m.Payload) == 0 {
			delete(f.retained, m.Topic)
		}
	}
	if f.dropped {
		return 0, nil
	}
	for _, d := range f.devices[m.Topic] {
		go d.receive(m)
	}
	return len(f.devices[m.Topic]), nil
}

// deliver lets a device get what is published on a topic.
func (f *fakeMQTT) deliver(topic string, d *device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.devices[topic] = append(f.devices[topic], d)
}

// lose makes nobody get anything, although they subscribed, or ends that.
func (f *fakeMQTT) lose(all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped = all
}

// on lists what was published on a topic.
func (f *fakeMQTT) on(topic string) []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []sent
	for _, m := range f.sent {
		if m.Topic == topic {
			found = append(found, m)
		}
	}
	return found
}

// card is the retained card of an agent.
func (f *fakeMQTT) card(t testing.TB, id protocol.AgentID) *Card {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	payload, ok := f.retained["aibridge/agent/"+string(id)+"/card"]
	if !ok {
		return nil
	}
	var c Card
	if err := json.Unmarshal(payload, &c); err != nil {
		t.Errorf("card of %s: %v", id, err)
	}
	return &c
}

// A world is a service with everything around it replaced.
type world struct {
	*Service
	t         testing.TB
	agents    *recordstest.Memory[Agent]
	skills    *recordstest.Memory[SkillRecord]
	resources *recordstest.Memory[ResourceRecord]
	mqtt      *fakeMQTT
	metered   *prometheus.Registry
	router    *commands.Router
	requests  int
	stop      func()
}

// newWorld makes a world that runs until the test ends. In a synctest bubble
// [world.close] must be called.
func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{
		t:      t,
		agents: recordstest.New[Agent](), skills: recordstest.New[SkillRecord](), resources: recordstest.New[ResourceRecord](),
		mqtt:    &fakeMQTT{retained: make(map[string][]byte), devices: make(map[string][]*device)},
		metered: prometheus.NewRegistry(),
	}
	o := Options{Agents: w.agents, Skills: w.skills, Resources: w.resources, Publisher: w.mqtt, Routes: routeCerts{}, Registerer: w.metered}
	for _, f := range change {
		f(&o)
	}
	var err error
	if w.Service, err = New(o); err != nil {
		t.Fatal(err)
	}
	set, err := commands.NewSet(w.Commands()...)
	if err != nil {
		t.Fatal(err)
	}
	w.router = commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for !w.news.Begun() {
		runtime.Gosched()
	}
	w.stop = sync.OnceFunc(func() {
		if err := w.router.Close(context.Background()); err != nil {
			t.Errorf("close the router: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *world) close() { w.stop() }

// A question is a command somebody sends.
type question struct {
	who     *protocol.Principal
	command string
	params  string // JSON
	sender  string
	client  string // MQTT client id, "" for HTTP
	timeout time.Duration
	emit    func(*protocol.Event)

	extension string // JSON, "" for none
	line      commands.Line
}

// ask has the router run a command.
func (w *world) ask(q question) *protocol.Response {
	w.t.Helper()
	w.mqtt.mu.Lock()
	w.requests++
	id := fmt.Sprintf("r-%d", w.requests)
	w.mqtt.mu.Unlock()
	if q.params == "" {
		q.params = "{}"
	}
	r := protocol.Request{
		ID: id, Timestamp: time.Now().UnixMilli(), Command: q.command, Params: []byte(q.params),
		Metadata: protocol.Metadata{SenderID: q.sender, TraceID: "trace-of-" + id, Timeout: q.timeout, Events: q.emit != nil},
	}
	if q.extension != "" {
		r.Extension = []byte(q.extension)
	}
	in := commands.Inbound{Principal: q.who, Body: r.Append(nil), Door: "http", Emit: q.emit, Line: q.line}
	if q.client != "" {
		in.Door, in.Client = "mqtt", q.client
	}
	return w.router.Handle(context.Background(), in)
}

// do asks for a command that must succeed and decodes its result.
func (w *world) do(who *protocol.Principal, command, params string, result any) {
	w.t.Helper()
	w.must(w.ask(question{who: who, command: command, params: params}), result)
}

func (w *world) must(r *protocol.Response, result any) {
	w.t.Helper()
	if r.Err != nil {
		w.t.Fatalf("unexpected failure: %v %v", r.Err, r.Err.Details)
	}
	if result != nil {
		if err := json.Unmarshal(r.Result, result); err != nil {
			w.t.Fatalf("result %s: %v", r.Result, err)
		}
	}
}

// fails asks for a command that must fail with a code. It returns the error.
func (w *world) fails(who *protocol.Principal, command, params string, code protocol.Code) *protocol.Error {
	w.t.Helper()
	return w.failed(w.ask(question{who: who, command: command, params: params}), code)
}

func (w *world) failed(r *protocol.Response, code protocol.Code) *protocol.Error {
	w.t.Helper()
	if r.Err == nil {
		w.t.Fatalf("succeeded with %s, want %s", r.Result, code)
	}
	if r.Err.Code != code {
		w.t.Fatalf("failed with %v %v, want %s", r.Err, r.Err.Details, code)
	}
	return r.Err
}

// counted is the value of a metric, of those with a label if that is not "".
func (w *world) counted(name, label string) (sum float64) {
	families, err := w.metered.Gather()
	if err != nil {
		w.t.Error(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// dropped is the number of messages of agents that were dropped for a reason.
func (w *world) dropped(reason string) float64 {
	return w.counted("aibridge_agent_messages_dropped_total", reason)
}

// A device is an MQTT client that serves an agent.
type device struct {
	replies protocol.Replies // the bridge's memory of its connection

	w      *world
	id     protocol.AgentID
	who    *protocol.Principal
	client string
	answer func(d *device, r *protocol.Request) // nil: stays silent

	mu       sync.Mutex
	requests []*protocol.Request
	messages []protocol.Message
}

// connect makes a device: connected, and listening on its request topic.
func (w *world) connect(id protocol.AgentID, who *protocol.Principal, answer func(*device, *protocol.Request)) *device {
	d := &device{w: w, id: id, who: who, client: "client-of-" + string(id), answer: answer}
	w.Connected(d, d.client, who)
	d.listen()
	return d
}

// device makes a device that is registered as an agent with one skill.
func (w *world) device(id protocol.AgentID, skill string, answer func(*device, *protocol.Request)) *device {
	w.t.Helper()
	d := w.connect(id, alice, answer)
	d.register()
	w.do(alice, "skill.register", fmt.Sprintf(`{"agent_id":%q,"skill":%s}`, id, skill), nil)
	return d
}

func (d *device) topic() string { return "aibridge/agent/" + string(d.id) + "/request" }

func (d *device) listen() {
	d.w.mqtt.deliver(d.topic(), d)
	d.w.Subscribed(d, d.topic())
}

func (d *device) register() {
	d.w.t.Helper()
	d.w.must(d.w.ask(question{
		who: d.who, command: "agent.register", client: d.client,
		params: fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"}`, d.id),
	}), nil)
}

// die ends the connection without a word.
func (d *device) die() {
	d.w.mqtt.mu.Lock()
	delete(d.w.mqtt.devices, d.topic())
	d.w.mqtt.mu.Unlock()
	d.w.Disconnected(d, "connection lost")
}

func (d *device) receive(m sent) {
	r, err := protocol.DecodeRequest(m.Payload, protocol.Limits{})
	if err != nil {
		d.w.t.Errorf("%s got a request that is none: %v", d.id, err)
		return
	}
	d.mu.Lock()
	d.requests = append(d.requests, r)
	d.messages = append(d.messages, m.Message)
	d.mu.Unlock()
	if r.Command != "task.cancel" && d.answer != nil {
		d.answer(d, r)
	}
}

// got lists the commands the device was asked.
func (d *device) got() []*protocol.Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*protocol.Request(nil), d.requests...)
}

// say publishes on the device's response topic.
func (d *device) say(payload string) { d.sayWith(payload, "") }

func (d *device) sayWith(payload, correlation string) {
	d.w.Answer("aibridge/agent/"+string(d.id)+"/response", d.who, &d.replies, []byte(payload), []byte(correlation))
}

// succeed answers a request with a result.
func (d *device) succeed(r *protocol.Request, result string) {
	d.say(fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":1,"type":"response","status":"success","result":%s,"error":null,"metadata":{}}`, r.ID, result))
}

// fail answers a request with an error.
func (d *device) fail(r *protocol.Request, code, message string) {
	d.say(fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":1,"type":"response","status":"failed","result":{},"error":{"code":%q,"message":%q,"details":{}},"metadata":{}}`, r.ID, code, message))
}

// tell sends an event about a request.
func (d *device) tell(r *protocol.Request, name, data string) {
	d.say(fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":1,"type":"event","event":%q,"seq":1,"data":%s,"metadata":{}}`, r.ID, name, data))
}

// echo answers with the params it got.
func echo(d *device, r *protocol.Request) {
	var p struct {
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		d.w.t.Errorf("params %s: %v", r.Params, err)
	}
	d.succeed(r, string(p.Params))
}
