package nats_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/wire/scripted"
)

// agents has the bridge be agents, of acme.
func agents(c *app.Config) { c.Doors.NATS.Agents = "acme" }

// records are the answers of all agents of acme to what is asked of them.
func records[T any](f *field, verb string, want int) map[string]T {
	f.t.Helper()
	found := make(map[string]T)
	eventually.Holds(f.t, fmt.Sprintf("%d agents answer", want), func() bool {
		clear(found)
		inbox := f.NewInbox()
		answers, err := f.SubscribeSync(inbox)
		if err != nil {
			f.t.Fatal(err)
		}
		defer func() { _ = answers.Unsubscribe() }()
		if err := f.PublishRequest("$SRV."+verb+".agents", inbox, nil); err != nil {
			f.t.Fatal(err)
		}
		for len(found) < want {
			m, err := answers.NextMsg(eventually.Patience / 100)
			if err != nil {
				return false
			}
			var identity micro.ServiceIdentity
			var record T
			if json.Unmarshal(m.Data, &identity) != nil || json.Unmarshal(m.Data, &record) != nil {
				f.t.Fatalf("%s", m.Data)
			}
			found[identity.Metadata["session"]] = record
		}
		return true
	})
	return found
}

// A heard is a message of the answer to a prompt.
type heard struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
	code string
}

func (h heard) text() (text string) {
	_ = json.Unmarshal(h.Data, &text) // "" of what is no text
	return text
}

// next is the next message of an answer. The last has no type.
func next(t *testing.T, answer *nats.Subscription) heard {
	t.Helper()
	m, err := answer.NextMsg(eventually.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Data) == 0 && len(m.Header) == 0 {
		return heard{}
	}
	h := heard{code: code(m)}
	if err := json.Unmarshal(m.Data, &h); err != nil || h.code == "" && h.Type == "" {
		t.Fatalf("a message of an answer is %s %v: %v", m.Data, m.Header, err)
	}
	if h.code != "" && m.Header.Get(micro.ErrorHeader) == "" {
		t.Errorf("an error without a description: %v", m.Header)
	}
	return h
}

// rest are the texts of an answer from here to its end, and the code of its error.
func rest(t *testing.T, answer *nats.Subscription) (texts []string, failure string) {
	t.Helper()
	for {
		h := next(t, answer)
		switch {
		case h.Type == "" && h.code == "":
			return texts, failure
		case failure != "":
			t.Errorf("after the error there comes %+v", h)
		case h.code != "":
			failure = h.code
		case h.Type == "response":
			texts = append(texts, h.text())
		}
	}
}

// prompt sends a prompt that is taken.
func (f *field) prompt(subject, text string) *nats.Subscription {
	f.t.Helper()
	answer := f.begin(subject, text)
	if first := next(f.t, answer); first.Type != "status" || first.text() != "ack" {
		f.t.Fatalf("the answer to %s begins with %+v", text, first)
	}
	return answer
}

// [SAP-2-1] [SAP-2-2] [SAP-2.1-1] [SAP-3.1-1] [SAP-3.2-1] [SAP-3.3-1] [SAP-4-1] [SAP-8-1] [SAP-8.7-1] [SAP-8.3-1]
func TestAgentsAreFound(t *testing.T) {
	f := newField(t)
	beats, err := f.SubscribeSync("agents.hb.*.*.*")
	if err != nil {
		t.Fatal(err)
	}
	n := bridgetest.Start(t, f.serve, agents)
	n.Device(t, "lamp", "desk.lamp", `["on"]`)
	pings := records[micro.Ping](f, "PING", 2)
	infos := records[micro.Info](f, "INFO", 2)
	for session, info := range infos {
		token := strings.ReplaceAll(session, ".", "//")
		if info.Name != "agents" || info.Type != micro.InfoResponseType || info.Version == "" || info.Description == "" || info.ID == "" || info.ID != pings[session].ID {
			t.Errorf("INFO of %s: %+v", session, info)
		}
		if m := info.Metadata; m["agent"] != "aibridge" || m["owner"] != "acme" || m["protocol_version"] != "0.3" {
			t.Errorf("the metadata of %s are %v", session, m)
		}
		if len(info.Endpoints) != 2 {
			t.Fatalf("the endpoints of %s are %+v", session, info.Endpoints)
		}
		p, s := info.Endpoints[0], info.Endpoints[1]
		if p.Name != "prompt" || p.Subject != "agents.prompt.aibridge.acme."+token || p.QueueGroup != "agents" || p.Metadata["max_payload"] != "1MB" || p.Metadata["attachments_ok"] != "false" {
			t.Errorf("the prompts of %s: %+v", session, p)
		}
		if s.Name != "status" || s.Subject != "agents.status.aibridge.acme."+token || s.QueueGroup != "agents" {
			t.Errorf("the status of %s: %+v", session, s)
		}
		var alone micro.Info
		if err := json.Unmarshal(f.ask("$SRV.INFO.agents."+info.ID, "").Data, &alone); err != nil || alone.Metadata["session"] != session {
			t.Errorf("INFO of %s alone: %+v %v", session, alone, err)
		}
	}
	if infos["bridge"].ID == "" || infos["desk//lamp"].Metadata["skill_id"] != "desk.lamp" {
		t.Errorf("the agents are %v", infos)
	}
	type beat struct {
		Agent    string `json:"agent"`
		Owner    string `json:"owner"`
		Session  string `json:"session"`
		Instance string `json:"instance_id"`
		At       string `json:"ts"`
		Every    int    `json:"interval_s"`
	}
	is := func(body []byte, session string) {
		t.Helper()
		var b beat
		if err := json.Unmarshal(body, &b); err != nil || b.Agent != "aibridge" || b.Owner != "acme" || b.Session != session || b.Instance != infos[session].ID || !strings.HasSuffix(b.At, "Z") || b.Every != 30 {
			t.Errorf("%s tells of itself %s", session, body)
		}
	}
	m, err := beats.NextMsg(eventually.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject != "agents.hb.aibridge.acme.bridge" {
		t.Errorf("a heartbeat on %s", m.Subject)
	}
	is(m.Data, "bridge")
	is(f.ask("agents.status.aibridge.acme.desk//lamp", "whatever").Data, "desk//lamp")
	if answer := f.ask("agents.status.aibridge.acme.nobody", ""); code(answer) != "404" {
		t.Errorf("the status of nobody: %v %s", answer.Header, answer.Data)
	}
}

// [SAP-5.1-1] [SAP-5.3-1] [SAP-5.6-1] [SAP-6.2-1] [SAP-6.4-1] [SAP-6.5-1] [SAP-6.5-2] [SAP-9-1] [SAP-9-2]
func TestAnAgentOfNATSMakesADeviceAct(t *testing.T) {
	f := newField(t)
	n := bridgetest.Start(t, f.serve, agents)
	lamp := n.Device(t, "lamp", "lamp", `[{"capability_id":"set","params_schema":{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}}]`)
	found := records[micro.Info](f, "INFO", 2)
	subject := found["lamp"].Endpoints[0].Subject
	act := `{"capability_id":"set","params":{"on":true}}`
	wrapped, err := json.Marshal(map[string]any{"prompt": act, "trace": map[string]any{"of": "a later version"}})
	if err != nil {
		t.Fatal(err)
	}
	answer := f.prompt(subject, " \n"+string(wrapped))
	lamp.Reply(t, "lamp", lamp.Invocation(t), map[string]any{"lit": true})
	texts, failure := rest(t, answer)
	if failure != "" || !strings.Contains(strings.Join(texts, ""), `"lit":true`) {
		t.Errorf("the answer is %q, %s", texts, failure)
	}
	if err := f.Publish(answer.Subject, []byte("mark")); err != nil {
		t.Fatal(err)
	}
	if m, err := answer.NextMsg(eventually.Patience); err != nil || string(m.Data) != "mark" {
		t.Errorf("after the end there comes %v %v", m, err)
	}
	for _, bad := range []struct{ subject, body, code string }{
		{subject, "", "400"},
		{subject, `{"prompt":`, "400"},
		{subject, `{"text":"x"}`, "400"},
		{subject, `{"prompt":""}`, "400"},
		{subject, `{"prompt":5}`, "400"},
		{subject, `{"prompt":"x","attachments":[{"filename":"a","content":"YQ=="}]}`, "400"},
		{subject, "\xff\xfe", "400"},
		{subject, strings.Repeat("x", 1<<20+1)[:1<<20], "400"}, // no model reads it
		{subject, "Is it dark?", "400"},
		{subject, `{"prompt":"{\"capability_id\":\"fly\"}"}`, "400"},
		{"agents.prompt.aibridge.acme.nobody", "hello", "404"},
	} {
		answer := f.begin(bad.subject, bad.body)
		if texts, failure := rest(t, answer); failure != bad.code || len(texts) > 0 {
			t.Errorf("%.60q is answered %q %s", bad.body, texts, failure)
		}
	}
	stats := records[micro.Stats](f, "STATS", 2)["lamp"]
	if e := stats.Endpoints[0]; stats.Type != micro.StatsResponseType || e.NumRequests != 11 || e.NumErrors != 10 || e.ProcessingTime == 0 {
		t.Errorf("STATS: %+v", e)
	}
}

// [SAP-6.3-1]
func TestAModelsWordsComeAsItWrites(t *testing.T) {
	f := newField(t)
	bridgetest.Start(t, f.serve, agents, says(t, "Yes, ", "a bit."))
	records[micro.Ping](f, "PING", 1)
	texts, failure := rest(t, f.prompt("agents.prompt.aibridge.acme.bridge", "Is it too warm?"))
	if failure != "" || strings.Join(texts, "") != "Yes, a bit." || len(texts) < 2 {
		t.Errorf("the answer is %q, %s", texts, failure)
	}
}

// says has a bridge use a language model that always writes the same words.
func says(t *testing.T, words ...string) func(*app.Config) {
	var lines []string
	for _, w := range words {
		lines = append(lines, `{"model":"m-1","choices":[{"delta":{"content":"`+w+`"}}]}`)
	}
	model := scripted.ForBridge(t, scripted.Stream(append(lines, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, "[DONE]")...))
	return func(c *app.Config) { c.LLM.BaseURL, c.LLM.Model = model.URL+"/v1", "small" }
}

// TestAnAnswerShowsTheCredentialOfItsPrompt has a workflow ask its user, who must be
// the one that began it.
func TestAnAnswerShowsTheCredentialOfItsPrompt(t *testing.T) {
	f := newField(t)
	n := bridgetest.Start(t, f.serve, agents, says(t, "Which room?"), func(c *app.Config) { c.Dev = false })
	text, err := os.ReadFile(filepath.Join(n.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	f.awaitService()
	admin := strings.TrimSpace(string(text))
	other, _ := newKey(t, f, admin, `{"principal_id":"olga","kind":"operator","roles":["operator"]}`)
	for name, key := range map[string]string{"nobody's": "", "another's": other, "an invented": "invented"} {
		answer, err := f.SubscribeSync(f.NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		send := func(to, words, key string) {
			t.Helper()
			m := nats.NewMsg(to)
			m.Reply, m.Data = answer.Subject, []byte(words)
			if key != "" {
				m.Header.Set("Authorization", "Bearer "+key)
			}
			if err := f.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		question := func() (to string) {
			t.Helper()
			h := next(t, answer)
			for h.Type == "status" {
				h = next(t, answer)
			}
			var q struct {
				Prompt string `json:"prompt"`
				To     string `json:"reply_subject"`
			}
			if err := json.Unmarshal(h.Data, &q); err != nil || h.Type != "query" || q.Prompt != "Which room?" {
				t.Fatalf("the workflow says %+v", h)
			}
			return q.To
		}
		send("agents.prompt.aibridge.acme.bridge", `{"prompt":"{\"run\":{\"mode\":\"chat\",\"input\":\"Is it warm?\"}}"}`, admin)
		send(question(), "The kitchen.", admin)
		send(question(), "The kitchen.", key)
		if texts, failure := rest(t, answer); failure != "403" || len(texts) > 0 {
			t.Errorf("an answer with %s credential is answered %q %s", name, texts, failure)
		}
	}
}

// [SAP-7-1] [SAP-7-2]
func TestAnAgentAsksBeforeItActs(t *testing.T) {
	f := newField(t)
	n := bridgetest.Start(t, f.serve, agents)
	lamp := n.Device(t, "lamp", "lamp", `[{"capability_id":"burn","risk":"high"}]`)
	records[micro.Ping](f, "PING", 2)
	const burn = `{"prompt":"{\"capability_id\":\"burn\"}"}`
	asked := func(answer *nats.Subscription) (to string) {
		t.Helper()
		h := next(t, answer)
		var q struct{ ID, Prompt, ReplySubject string }
		var fields map[string]string
		if err := json.Unmarshal(h.Data, &fields); h.Type != "query" || err != nil {
			t.Fatalf("the agent says %+v", h)
		}
		q.ID, q.Prompt, q.ReplySubject = fields["id"], fields["prompt"], fields["reply_subject"]
		if q.ID == "" || !strings.Contains(q.Prompt, "lamp.burn") || q.ReplySubject == "" {
			t.Fatalf("the agent asks %s", h.Data)
		}
		return q.ReplySubject
	}
	say := func(to, words string) {
		t.Helper()
		if err := f.Publish(to, []byte(words)); err != nil {
			t.Fatal(err)
		}
	}
	answer := f.prompt("agents.prompt.aibridge.acme.lamp", burn)
	first := asked(answer)
	say(first, "why not?")
	second := asked(answer)
	if first == second {
		t.Errorf("both questions want their answers on %s", first)
	}
	say(second, `{"prompt":"Approve"}`)
	lamp.Reply(t, "lamp", lamp.Invocation(t), map[string]any{"burnt": true})
	if texts, failure := rest(t, answer); failure != "" || !strings.Contains(strings.Join(texts, ""), "burnt") {
		t.Errorf("after it was approved: %q %s", texts, failure)
	}
	answer = f.prompt("agents.prompt.aibridge.acme.lamp", burn)
	say(asked(answer), "no")
	if texts, failure := rest(t, answer); failure == "" || len(texts) > 0 {
		t.Errorf("after it was denied: %q %s", texts, failure)
	}
}

// [SAP-9.2-1]
func TestAgentsAreThoseOfTheirCaller(t *testing.T) {
	f := newField(t)
	n := bridgetest.Start(t, f.serve, agents, func(c *app.Config) { c.Dev = false })
	text, err := os.ReadFile(filepath.Join(n.Config.Data, app.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	admin := strings.TrimSpace(string(text))
	f.awaitService()
	lamps, _ := newKey(t, f, admin, `{"principal_id":"lamp","kind":"agent","roles":["end_agent"]}`)
	spies, _ := newKey(t, f, admin, `{"principal_id":"spy","kind":"operator","roles":["operator"],"space_id":"other"}`)
	olgas, _ := newKey(t, f, admin, `{"principal_id":"olga","kind":"operator","roles":["operator"]}`)
	for _, asked := range [][2]string{
		{"agent.register", `{"agent_id":"lamp","type":"end_agent"}`},
		{"skill.register", `{"agent_id":"lamp","skill":{"skill_id":"lamp","name":"S","capabilities":["on"]}}`},
	} {
		if response := call(t, f, lamps, asked[0], asked[1]); response.Err != nil {
			t.Fatal(response.Err)
		}
	}
	tell := func(key, agent string) (heard, []string, string) {
		t.Helper()
		inbox := f.NewInbox()
		answer, err := f.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		m := nats.NewMsg("agents.prompt.aibridge.acme." + agent)
		m.Reply, m.Data = inbox, []byte(`{"prompt":"{\"capability_id\":\"on\"}"}`)
		if key != "" {
			m.Header.Set("Authorization", "Bearer "+key)
		}
		if err := f.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		first := next(t, answer)
		texts, failure := rest(t, answer)
		return first, texts, failure
	}
	if first, _, _ := tell("", "lamp"); first.code != "401" {
		t.Errorf("who shows nothing hears %+v", first)
	}
	if first, _, _ := tell("invented", "lamp"); first.code != "401" {
		t.Errorf("who shows an invented key hears %+v", first)
	}
	_, _, hidden := tell(spies, "lamp")
	_, _, missing := tell(spies, "nothing")
	if hidden != "404" || missing != "404" {
		t.Errorf("one of another space hears %s of an agent and %s of none", hidden, missing)
	}
	if _, _, failure := tell(olgas, "lamp"); failure == "404" || failure == "401" {
		t.Errorf("olga hears %s", failure)
	}
	entries := call(t, f, admin, "audit.query", `{"principal":"olga"}`)
	if entries.Err != nil || !strings.Contains(string(entries.Result), `"door":"nats"`) {
		t.Errorf("the audit trail has %s %v", entries.Result, entries.Err)
	}
}
