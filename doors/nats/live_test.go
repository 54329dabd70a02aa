package nats_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// A field is a NATS that others use, and a client of it.
type field struct {
	*nats.Conn
	t *testing.T
}

func newField(t *testing.T) *field {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(eventually.Patience) {
		t.Fatal("NATS does not start")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return &field{conn, t}
}

// serve has a bridge serve the field.
func (f *field) serve(c *app.Config) { c.Doors.NATS.URL = f.ConnectedUrl() }

// ask sends a request and returns the answer, when the bridge is there.
func (f *field) ask(subject, body string, header ...string) *nats.Msg {
	f.t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	answer, err := f.RequestMsg(m, eventually.Patience)
	if err != nil {
		f.t.Fatalf("%s: %v", subject, err)
	}
	return answer
}

// begin sends a request, and returns what gets the answers.
func (f *field) begin(subject, body string) *nats.Subscription {
	f.t.Helper()
	inbox := f.NewRespInbox()
	answers, err := f.SubscribeSync(inbox)
	if err == nil {
		err = f.PublishRequest(subject, inbox, []byte(body))
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return answers
}

func (f *field) tell(subject string, into any) {
	f.t.Helper()
	f.awaitService()
	answer := f.ask(subject, "")
	if err := json.Unmarshal(answer.Data, into); err != nil {
		f.t.Fatalf("%s: %s: %v", subject, answer.Data, err)
	}
}

// awaitService waits until the bridge has subscribed.
func (f *field) awaitService() {
	f.t.Helper()
	var err error
	eventually.Holds(f.t, "the bridge answers in NATS", func() bool {
		_, err = f.Request("$SRV.PING.aibridge", nil, eventually.Patience)
		return err == nil
	}, &err)
}

func (f *field) info() (info micro.Info) {
	f.t.Helper()
	f.tell("$SRV.INFO.aibridge", &info)
	return info
}

// code is that of the error of an answer, "" for none.
func code(m *nats.Msg) string { return m.Header.Get(micro.ErrorCodeHeader) }

func TestNATSClientsFindTheBridgeAndItsSkills(t *testing.T) {
	f := newField(t)
	n := bridgetest.Start(t, f.serve)
	lamp := n.Device(t, "lamp", "desk.lamp", `[{"capability_id":"set","description":"Set it.","params_schema":{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}},
		{"capability_id":"two words"}]`)

	f.awaitService()
	var ping micro.Ping
	f.tell("$SRV.PING", &ping)
	if ping.Type != micro.PingResponseType || ping.Name != "aibridge" || ping.ID == "" || ping.Version == "" || ping.Metadata["bridge_id"] != "aibridge" {
		t.Errorf("PING: %+v", ping)
	}
	var info micro.Info
	f.tell("$SRV.INFO.aibridge."+ping.ID, &info)
	if info.Type != micro.InfoResponseType || info.ID != ping.ID || len(info.Endpoints) != 2 {
		t.Fatalf("INFO: %+v", info)
	}
	if e := info.Endpoints[0]; e.Name != "request" || e.Subject != "aibridge.bridge.request" || e.QueueGroup == "" {
		t.Errorf("the endpoint of envelopes: %+v", e)
	}
	set := info.Endpoints[1]
	if set.Name != "desk_lamp-set" || set.Subject != "aibridge.skill.desk//lamp.set" || set.Metadata["skill_id"] != "desk.lamp" ||
		set.Metadata["capability_id"] != "set" || set.Metadata["description"] != "Set it." || !strings.Contains(set.Metadata["params_schema"], "boolean") {
		t.Errorf("the endpoint of the capability: %+v", set)
	}

	answers := f.begin(set.Subject, `{"on":true}`)
	asked := lamp.Invocation(t)
	lamp.Reply(t, "lamp", asked, map[string]any{"lit": true})
	answer, err := answers.NextMsg(eventually.Patience)
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Skill string `json:"skill_id"`
		Data  struct {
			Lit bool `json:"lit"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer.Data, &result); err != nil || result.Skill != "desk.lamp" || !result.Data.Lit || code(answer) != "" {
		t.Errorf("the answer: %s %v %v", answer.Data, answer.Header, err)
	}

	response, err := protocol.DecodeResponse(f.ask("aibridge.bridge.request", bridgetest.Request("r1", "agent.get", `{"agent_id":"lamp"}`)).Data, protocol.Limits{})
	if err != nil || response.Err != nil || response.ID != "r1" || !strings.Contains(string(response.Result), `"lamp"`) {
		t.Errorf("the answer to an envelope: %+v, %v", response, err)
	}

	for _, bad := range []struct{ subject, body, header, value, code, says string }{
		{set.Subject, `{"on":1}`, "", "", "1001", "params"},
		{set.Subject, `[]`, "", "", "1001", "one JSON object"},
		{set.Subject, `{"on":true}{}`, "", "", "1001", "one JSON object"},
		{set.Subject, `{"on":true}`, "X-Timeout-Ms", "soon", "1001", "X-Timeout-Ms"},
		{set.Subject, `{"on":true}`, "Nats-Msg-Id", strings.Repeat("x", 65), "1000", "id"},
		{"aibridge.skill.nobody.set", `{}`, "", "", "3001", "nobody"},
		{"aibridge.bridge.request", `{`, "", "", "1000", ""},
		{"aibridge.bridge.request", bridgetest.Request("r2", "no.such", `{}`), "", "", "1002", "no.such"},
		{"aibridge.bridge.request", "{}", "Authorization", "Bearer wrong", "2002", ""},
	} {
		var header []string
		if bad.header != "" {
			header = []string{bad.header, bad.value}
		}
		if answer := f.ask(bad.subject, bad.body, header...); code(answer) != bad.code || !strings.Contains(string(answer.Data), bad.says) || answer.Header.Get(micro.ErrorHeader) == "" {
			t.Errorf("%s %s: %v %s", bad.subject, bad.body, answer.Header, answer.Data)
		}
	}

	var stats micro.Stats
	f.tell("$SRV.STATS.aibridge", &stats)
	if stats.Type != micro.StatsResponseType || stats.Started.IsZero() || len(stats.Endpoints) != 2 {
		t.Fatalf("STATS: %+v", stats)
	}
	if e := stats.Endpoints[0]; e.NumRequests != 4 || e.NumErrors != 3 || e.LastError != "2002" {
		t.Errorf("STATS of envelopes: %+v", e)
	}
	if e := stats.Endpoints[1]; e.NumRequests != 6 || e.NumErrors != 5 || e.ProcessingTime == 0 {
		t.Errorf("STATS of the capability: %+v", e)
	}
}

// call runs a command with a key.
func call(t *testing.T, f *field, key, command, params string) *protocol.Response {
	t.Helper()
	response, err := protocol.DecodeResponse(f.ask("aibridge.bridge.request", bridgetest.Request(protocol.NewID(), command, params), "Authorization", "Bearer "+key).Data, protocol.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// newKey makes a principal.
func newKey(t *testing.T, f *field, admin, params string) (key, id string) {
	t.Helper()
	response := call(t, f, admin, "key.create", params)
	var made struct {
		Key string `json:"key"`
		ID  string `json:"key_id"`
	}
	if response.Err != nil {
		t.Fatal(response.Err)
	}
	if err := json.Unmarshal(response.Result, &made); err != nil {
		t.Fatal(err)
	}
	return made.Key, made.ID
}

func TestNATSClientsAreWhoTheirCredentialSays(t *testing.T) {
	f := newField(t)
	n := bridgetest.Start(t, f.serve, func(c *app.Config) { c.Dev = false })
	text, err := os.ReadFile(filepath.Join(n.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	admin := strings.TrimSpace(string(text))
	f.awaitService()
	if answer := f.ask("aibridge.bridge.request", bridgetest.Request("1", "agent.list", `{}`)); code(answer) != "2001" {
		t.Errorf("who shows nothing gets %s %s", code(answer), answer.Data)
	}
	lamps, _ := newKey(t, f, admin, `{"principal_id":"lamp","kind":"agent","roles":["end_agent"]}`)
	others, _ := newKey(t, f, admin, `{"principal_id":"spy","kind":"operator","roles":["operator"],"space_id":"other"}`)
	olgas, olga := newKey(t, f, admin, `{"principal_id":"olga","kind":"operator","roles":["operator"]}`)
	if response := call(t, f, lamps, "key.create", `{"principal_id":"x"}`); response.Err == nil || response.Err.Code != protocol.PermissionDenied {
		t.Errorf("an agent makes a key: %+v", response)
	}
	register := func(key, agent, skill string) {
		t.Helper()
		for _, asked := range [][2]string{
			{"agent.register", fmt.Sprintf(`{"agent_id":%q,"type":"end_agent"}`, agent)},
			{"skill.register", fmt.Sprintf(`{"agent_id":%q,"skill":{"skill_id":%q,"name":"S","capabilities":["on"]}}`, agent, skill)},
		} {
			if response := call(t, f, key, asked[0], asked[1]); response.Err != nil {
				t.Fatal(response.Err)
			}
		}
	}
	register(lamps, "lamp", "lamp")
	register(others, "vault", "vault")
	if list := f.info().Endpoints; len(list) != 1 || list[0].Name != "request" {
		t.Errorf("who shows nothing sees %+v", list)
	}

	file := filepath.Join(t.TempDir(), "olga")
	if err := os.WriteFile(file, []byte(olgas+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Config.Doors.NATS.Principal = file
	n.Restart(t)
	if list := f.info().Endpoints; len(list) != 2 || list[1].Subject != "aibridge.skill.lamp.on" {
		t.Errorf("who counts as olga sees %+v", list)
	}
	missing, foreign := f.ask("aibridge.skill.nothing.on", "{}"), f.ask("aibridge.skill.vault.on", "{}")
	if got, want := string(foreign.Data), strings.ReplaceAll(string(missing.Data), "nothing", "vault"); code(foreign) != "3001" || got != want {
		t.Errorf("a skill of another space: %s, and one that is not there: %s", got, want)
	}
	if answer := f.ask("aibridge.skill.vault.on", "{}", "X-API-Key", others); code(answer) == "3001" || code(answer)[0] == '2' {
		t.Errorf("its own space's principal gets %s %s", code(answer), answer.Data)
	}
	if response := call(t, f, admin, "key.revoke", fmt.Sprintf(`{"key_id":%q}`, olga)); response.Err != nil {
		t.Fatal(response.Err)
	}
	if answer := f.ask("aibridge.skill.lamp.on", "{}"); code(answer) != "2002" {
		t.Errorf("after the key was revoked: %s %s", code(answer), answer.Data)
	}
	if list := f.info().Endpoints; len(list) != 1 {
		t.Errorf("after the key was revoked they see %+v", list)
	}
}

// TestAnswersDoNotGoWhereTheBridgeListens has the bridge called with its own subjects
// for the answer.
func TestAnswersDoNotGoWhereTheBridgeListens(t *testing.T) {
	f := newField(t)
	bridgetest.Start(t, f.serve, func(c *app.Config) { c.Doors.NATS.Subscribe = []string{"plans/#"} })
	f.awaitService()
	heard, err := f.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"plans.x", "aibridge.bridge.request", "$SRV.PING"} {
		for _, subject := range []string{"aibridge.bridge.request", "$SRV.INFO"} {
			if err := f.PublishRequest(subject, reply, []byte(reply)); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.ask("aibridge.bridge.request", "{}") // what came before was looked at
	for {
		m, err := heard.NextMsg(eventually.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data) == "{}" {
			break
		}
		if text := string(m.Data); text != "plans.x" && text != "aibridge.bridge.request" && text != "$SRV.PING" {
			t.Errorf("the bridge answers on %s: %s", m.Subject, m.Data)
		}
	}
}

func TestMessagesAreCarriedBothWays(t *testing.T) {
	f := newField(t)
	n := bridgetest.Start(t, f.serve, func(c *app.Config) {
		c.Doors.NATS.Publish, c.Doors.NATS.Subscribe = []string{"sensors/#", "both/+"}, []string{"plans/#", "both/+"}
	})
	f.awaitService()
	heard, err := f.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	device := n.Connect(t, "device")
	device.Listen(t, "#")
	next := func() *nats.Msg {
		t.Helper()
		m, err := heard.NextMsg(eventually.Patience)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	sent := 0
	var m *nats.Msg
	eventually.Holds(t, "a message of MQTT reaches NATS", func() bool { // the bridge may not have subscribed yet
		sent++
		device.Send(t, "sensors/hall.1//temp", fmt.Sprint(sent))
		device.Next(t)
		m, err = heard.NextMsg(eventually.Patience / 100)
		return err == nil
	})
	if m.Subject != "sensors.hall//1./.temp" || m.Header.Get("Aibridge-Via") != "aibridge" {
		t.Errorf("NATS carries %s %v", m.Subject, m.Header)
	}
	for string(m.Data) != fmt.Sprint(sent) {
		m = next()
	}
	carried := func(subject, body, topic string, header nats.Header) {
		t.Helper()
		if err := f.PublishMsg(&nats.Msg{Subject: subject, Data: []byte(body), Header: header}); err != nil {
			t.Fatal(err)
		}
		if m := next(); m.Subject != subject || string(m.Data) != body { // one's own
			t.Fatalf("NATS carries %s %s", m.Subject, m.Data)
		}
		if topic == "" {
			return
		}
		if p := device.Next(t); p.Topic != topic || string(p.Payload) != body || p.Properties.User.Get("aibridge-via") != "aibridge" || p.Properties.ContentType != header.Get("Content-Type") {
			t.Errorf("MQTT carries %+v", p)
		}
	}
	carried("plans.monday.at//noon", "go", "plans/monday/at.noon", nats.Header{"Content-Type": {"text/plain"}})
	carried("plans", "all", "plans", nil)
	carried("plans.a+b", "no topic has a plus", "", nil)
	carried("plans.again", "was here", "", nats.Header{"Aibridge-Via": {"far aibridge"}})
	carried("both.a", "from NATS", "both/a", nil)
	device.Send(t, "both/b", "from MQTT")
	if p := device.Next(t); p.Topic != "both/b" || string(p.Payload) != "from MQTT" {
		t.Errorf("MQTT carries %s %s", p.Topic, p.Payload)
	}
	if m := next(); m.Subject != "both.b" || string(m.Data) != "from MQTT" {
		t.Errorf("NATS carries %s %s", m.Subject, m.Data)
	}
	carried("plans.end", "end", "plans/end", nil) // nothing came back on either side
	ctx := t.Context()
	if _, err := device.Publish(ctx, &paho.Publish{Topic: "sensors/again", QoS: 1, Properties: &paho.PublishProperties{User: paho.UserProperties{{Key: "aibridge-via", Value: "aibridge"}}}}); err != nil {
		t.Fatal(err)
	}
	device.Send(t, "sensors/end", "end")
	if m := next(); m.Subject != "sensors.end" {
		t.Errorf("NATS carries %s %s", m.Subject, m.Data)
	}
}

// TestThePagesRequestsAreAnswered sends the requests of docs/nats.md.
func TestThePagesRequestsAreAnswered(t *testing.T) {
	page, err := os.ReadFile("../../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	f := newField(t)
	n := bridgetest.Start(t, f.serve)
	lamp := n.Device(t, "lamp", "desk-lamp", `[{"capability_id":"set","params_schema":{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}}]`)
	f.awaitService()
	examples := regexp.MustCompile(`(?m)^nats request (\S+) '([^']*)'\n# → (.*)$`).FindAllStringSubmatch(string(page), -1)
	if len(examples) != 3 {
		t.Fatalf("the page has %d requests", len(examples))
	}
	for _, e := range examples {
		answers := f.begin(e[1], e[2])
		if strings.Contains(e[3], "lit") {
			lamp.Reply(t, "lamp", lamp.Invocation(t), map[string]any{"lit": true})
		}
		if answer, err := answers.NextMsg(eventually.Patience); err != nil {
			t.Errorf("%s %s: %v", e[1], e[2], err)
		} else if !strings.Contains(string(answer.Data), e[3]) {
			t.Errorf("%s %s: %s", e[1], e[2], answer.Data)
		}
	}
}
