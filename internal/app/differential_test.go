package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// A path is one way for calls through a bridge. All paths are the same to
// callers and leave the same evidence.
type path struct {
	name      string
	configure func(t *testing.T) func(*app.Config)
	options   []app.Option
	web       bool // the conversation goes over HTTP
}

// paths are those there are: the claim and the entry of a call go to files, on
// the goroutine that reads the connection or on another, or to NATS; and calls of
// a form that came before are prepared, or no call is; and they come by MQTT, or by
// HTTP.
var paths = []path{
	{"embedded", asItComes, nil, false},
	{"unprepared", asItComes, unprepared(), false},
	{"synced", func(*testing.T) func(*app.Config) { return func(c *app.Config) { c.Sync = "always" } }, nil, false},
	{"external NATS", func(t *testing.T) func(*app.Config) {
		url := startNATS(t)
		return func(c *app.Config) { c.NATS.URL = url }
	}, nil, false},
	{"HTTP", asItComes, nil, true},
	{"HTTP, unprepared", asItComes, unprepared(), true},
}

func asItComes(*testing.T) func(*app.Config) { return func(*app.Config) {} }

// A spoken envelope is one request of a conversation.
type spoken struct {
	id, text string
	weak     bool // by the caller who may do little
	acts     bool // reaches the device, so that no later process runs it
}

// TestAllPathsTellTheSame has the same conversation on every path, of valid,
// invalid, repeated, refused, failed, cancelled and timed-out calls, some at a
// time, and compares answers and evidence. After a restart no path runs again
// what acted.
func TestAllPathsTellTheSame(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2} {
		conversation := converse(rand.New(rand.NewPCG(seed, 7)), 40)
		var first transcript
		for i, p := range paths {
			got := discuss(t, p, conversation)
			if i == 0 {
				first = got
				continue
			}
			for _, diff := range first.differences(got) {
				t.Errorf("seed %d: %s and %s differ: %s", seed, paths[0].name, p.name, diff)
			}
		}
	}
}

// converse makes a conversation, in bursts that are under way together.
func converse(random *rand.Rand, bursts int) (conversation [][]spoken) {
	var repeatable []spoken
	for b := range bursts {
		var burst []spoken
		for i := range 1 + random.IntN(8) {
			id := fmt.Sprintf("c%d-%d", b, i)
			if random.IntN(2) == 0 {
				id = fmt.Sprintf("00000000-0000-4000-8000-%06x%06x", b, i)
			}
			s := say(random, id, repeatable)
			if slices.ContainsFunc(burst, func(o spoken) bool { return o.id == s.id && o.weak == s.weak }) {
				continue // which of two comes first would decide
			}
			burst = append(burst, s)
		}
		conversation = append(conversation, burst)
		for _, s := range burst {
			if s.acts {
				repeatable = append(repeatable, s)
			}
		}
	}
	return conversation
}

// say makes one request. What the device is to do stands in the params.
func say(random *rand.Rand, id string, earlier []spoken) spoken {
	invoke := func(do string) string {
		return fmt.Sprintf(`{"skill_id":"lamp","capability_id":"switch","params":{"do":%q,"n":%d}}`, do, random.IntN(1000))
	}
	switch kind := random.IntN(16); {
	case kind < 5:
		return spoken{id: id, text: bridgetest.Request(id, "skill.invoke", invoke("answer")), acts: true}
	case kind == 5:
		return spoken{id: id, text: bridgetest.Request(id, "skill.invoke", invoke("fail")), acts: true}
	case kind == 6:
		return spoken{id: id, text: envelope(id, "skill.invoke", invoke("nothing"), `{"timeout":300}`)} // which may come before or after it is dispatched
	case kind == 7:
		return spoken{id: id, text: bridgetest.Request(id, "skill.invoke", `{"skill_id":"lamp","capability_id":"switch","params":{"do":"unheard of"}}`)}
	case kind == 8:
		return spoken{id: id, text: bridgetest.Request(id, "skill.invoke", `{"skill_id":"no lamp","capability_id":"switch"}`)}
	case kind == 9:
		return spoken{id: id, text: bridgetest.Request(id, "skill.sing", `{}`)}
	case kind == 10:
		return spoken{id: id, text: bridgetest.Request(id, "agent.register", fmt.Sprintf(`{"agent_id":"a-%s","type":"end_agent"}`, id))}
	case kind == 11:
		return spoken{id: id, text: bridgetest.Request(id, "agent.get", `{"agent_id":"lamp-1"}`)}
	case kind == 12:
		return spoken{id: id, text: bridgetest.Request(id, "policy.get", `{}`), weak: true}
	case kind == 13:
		return spoken{id: id, text: bridgetest.Request(id, "task.cancel", `{"task_id":"00000000-0000-4000-8000-000000000000"}`)}
	case kind == 14 && len(earlier) > 0: // the same once more
		return earlier[random.IntN(len(earlier))]
	case len(earlier) > 0: // another with the same id
		e := earlier[random.IntN(len(earlier))]
		return spoken{id: e.id, text: bridgetest.Request(e.id, "skill.invoke", invoke("answer again"))}
	}
	return spoken{id: id, text: bridgetest.Request(id, "bridge.describe", `{"command":"agent.get"}`)}
}

// A transcript is what a conversation came to.
type transcript struct {
	answers  []string // in the order of the conversation
	evidence []string // sorted
	repeats  []string // answers of the next process
}

func (a transcript) differences(b transcript) (found []string) {
	for _, side := range []struct {
		of   string
		a, b []string
	}{{"answer", a.answers, b.answers}, {"entry", a.evidence, b.evidence}, {"answer after a restart", a.repeats, b.repeats}} {
		if len(side.a) != len(side.b) {
			found = append(found, fmt.Sprintf("%d and %d of sort %s", len(side.a), len(side.b), side.of))
		}
		for i := range min(len(side.a), len(side.b)) {
			if side.a[i] != side.b[i] {
				found = append(found, fmt.Sprintf("%s %d:\n\t%s\n\t%s", side.of, i, side.a[i], side.b[i]))
				break
			}
		}
	}
	return found
}

// discuss has a conversation on a path.
func discuss(t *testing.T, p path, conversation [][]spoken) (got transcript) {
	t.Helper()
	n := bridgetest.StartWith(t, p.options, p.configure(t))
	device := n.Device(t, "lamp-1", "lamp", `[{"capability_id":"switch","params_schema":{"type":"object","properties":{`+
		`"do":{"enum":["answer","answer again","fail","nothing"]},"n":{"type":"integer"}}}}]`)
	quit := make(chan struct{})
	defer close(quit)
	go obey(t, device, quit)
	admin := n.Caller(t, "admin")
	key := field(t, must(t, admin, "key.create", `{"principal_id":"weak"}`), "key")
	weak := n.Caller(t, "weak", withPassword("apikey", key))
	var web *visitor
	if p.web {
		web = newVisitor(t, n, key)
	}
	for _, burst := range conversation {
		if p.web {
			got.answers = append(got.answers, web.answersTo(burst)...)
			continue
		}
		got.answers = append(got.answers, answersTo(t, admin, weak, burst)...)
	}
	task := field(t, must(t, admin, "skill.invoke", `{"skill_id":"lamp","capability_id":"switch","async":true,"params":{"do":"nothing"}}`), "task_id")
	must(t, admin, "task.cancel", fmt.Sprintf(`{"task_id":%q}`, task))
	eventually.Holds(t, "the task is cancelled", func() bool {
		return field(t, must(t, admin, "task.get", fmt.Sprintf(`{"task_id":%q}`, task)), "state") == "cancelled"
	})
	got.evidence = evidenceOf(t, admin)
	if report := must(t, admin, "audit.verify", `{}`); !strings.Contains(string(report), `"ok":true`) {
		t.Errorf("%s: %s", p.name, report)
	}
	n.Restart(t)
	admin = n.Caller(t, "admin")
	for _, burst := range conversation {
		for _, s := range burst {
			if s.acts {
				answer := admin.Ask(t, s.text)
				got.repeats = append(got.repeats, s.id+" "+codeOf(answer))
				if answer.Err == nil || answer.Err.Code != protocol.OutcomeUnknown {
					t.Errorf("%s: %s is answered %s after a restart, want 4012", p.name, s.text, codeOf(answer))
				}
			}
		}
	}
	return got
}

// obey answers what a device is asked, as the params say.
func obey(t *testing.T, device *bridgetest.Raw, quit <-chan struct{}) {
	for {
		var m *paho.Publish
		select {
		case <-quit:
			return
		case m = <-device.Received:
		}
		call, err := protocol.DecodeRequest(m.Payload, protocol.Limits{})
		if err != nil {
			continue // an answer to the device
		}
		var asked struct {
			Params struct{ Do string } `json:"params"`
		}
		_ = json.Unmarshal(call.Params, &asked)
		answer := call.Answer("lamp-1", time.Now())
		switch asked.Params.Do {
		case "answer":
			answer.Result = call.Params
		case "fail":
			answer.Err = protocol.Errorf(protocol.InvalidState, "no bulb")
		default:
			continue
		}
		publish(t, device, "aibridge/agent/lamp-1/response", answer.Append(nil))
	}
}

// answersTo sends a burst and puts its answers into the burst's order.
func answersTo(t *testing.T, admin, weak *bridgetest.Raw, burst []spoken) (answers []string) {
	t.Helper()
	of := func(s spoken) *bridgetest.Raw {
		if s.weak {
			return weak
		}
		return admin
	}
	for _, s := range burst {
		publish(t, of(s), "aibridge/bridge/request", []byte(s.text))
	}
	by := make(map[string]*protocol.Response)
	for _, s := range burst {
		answer := of(s).Answer(t)
		by[answer.ID] = answer
	}
	for _, s := range burst {
		answer := by[s.id]
		if answer == nil {
			t.Fatalf("%s has no answer", s.text)
		}
		answers = append(answers, s.id+" "+codeOf(answer)+" "+shape(answer))
	}
	return answers
}

// A visitor has the conversation over HTTP, on connections that are kept alive.
type visitor struct {
	t      *testing.T
	client http.Client
	url    string
	weak   string // the key of the caller who may do little
}

func newVisitor(t *testing.T, n *bridgetest.Node, weak string) *visitor {
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{t, http.Client{Transport: transport}, n.HTTPURL("/api/v1/commands"), weak}
}

// answersTo sends a burst at once and puts its answers into the burst's order.
func (v *visitor) answersTo(burst []spoken) []string {
	answers := make([]string, len(burst))
	var asking sync.WaitGroup
	for i, s := range burst {
		asking.Go(func() {
			if answer := v.ask(s); answer != nil {
				answers[i] = s.id + " " + codeOf(answer) + " " + shape(answer)
			}
		})
	}
	asking.Wait()
	return answers
}

func (v *visitor) ask(s spoken) *protocol.Response {
	request, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.url, strings.NewReader(s.text))
	if err != nil {
		v.t.Error(err)
		return nil
	}
	request.Header.Set("Content-Type", "application/json")
	if s.weak {
		request.Header.Set("Authorization", "Bearer "+v.weak)
	}
	got, err := v.client.Do(request)
	if err != nil {
		v.t.Error(err)
		return nil
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		v.t.Error(err)
		return nil
	}
	answer, err := protocol.DecodeResponse(bytes.TrimSpace(body), protocol.Limits{})
	if err != nil {
		v.t.Errorf("%s: %s: %v", s.text, body, err)
		return nil
	}
	want := http.StatusOK
	if answer.Err != nil {
		want = answer.Err.Code.HTTPStatus()
	}
	if got.StatusCode != want {
		v.t.Errorf("%s is answered with status %d, want %d", s.text, got.StatusCode, want)
	}
	return answer
}

func codeOf(r *protocol.Response) string {
	if r.Err != nil {
		if r.Err.Code == protocol.TimedOut { // the bridge's clock and the agent's race
			return string(r.Err.Code)
		}
		return string(r.Err.Code) + " " + r.Err.Message
	}
	return audit.OK
}

// shape is the content of an answer, without what is measured.
func shape(r *protocol.Response) string {
	var result map[string]json.RawMessage
	if json.Unmarshal(r.Result, &result) != nil {
		return ""
	}
	if data, ok := result["data"]; ok {
		return string(data)
	}
	names := make([]string, 0, len(result))
	for name := range result {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// spokenID matches the ids of a conversation's requests.
var spokenID = regexp.MustCompile(`^(c\d+-\d+|00000000-0000-4000-8000-\w+)$`)

// evidenceOf is the trail's entries about requests. Which of several refusals
// that come together is the first, and has the entry, is not said.
func evidenceOf(t *testing.T, admin *bridgetest.Raw) (all []string) {
	t.Helper()
	params := `{"limit":1000}`
	for {
		found := audited(t, admin, params)
		for _, e := range found.Entries {
			if e.RequestID == "" || strings.HasPrefix(e.Event, "audit.") || e.Late {
				continue
			}
			if !spokenID.MatchString(e.RequestID) { // of this test, not of the conversation
				e.RequestID, e.Resource, e.Params = "", "", nil
			}
			if e.Code == string(protocol.TimedOut) { // perhaps before its skill was looked up, on a machine that has no time for it
				e.Reason, e.Resource = "", ""
			}
			if e.Code != audit.OK && !e.Async {
				if e.Event != "skill.invoke" || e.Code[0] != '3' && e.Code[0] != '4' {
					e.RequestID, e.Resource, e.Params = "", "", nil
				}
			}
			all = append(all, fmt.Sprintf("%s %s %s %s %s %s %s %s %q %t%t digest=%t", e.Event, e.Code, e.Principal, e.Kind, e.Action, e.Resource,
				e.Params, e.RequestID, e.Reason, e.Security, e.Async, e.Digest != ""))
		}
		if found.Next == "" {
			slices.Sort(all)
			return all
		}
		params = fmt.Sprintf(`{"limit":1000,"cursor":%q}`, found.Next)
	}
}
