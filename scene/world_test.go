package scene

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// The people of the tests. router and spare are RouteAgents that connect as
// agents; lamp is a skill; alice owns the Cap.
var (
	router = &protocol.Principal{Kind: protocol.KindAgent, ID: "agent-router", Space: protocol.DefaultSpace}
	spare  = &protocol.Principal{Kind: protocol.KindAgent, ID: "agent-spare", Space: protocol.DefaultSpace}
	lamp   = &protocol.Principal{Kind: protocol.KindSkill, ID: "lamp", Space: protocol.DefaultSpace}
	alice  = &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: protocol.DefaultSpace}
	mallet = &protocol.Principal{Kind: protocol.KindOperator, ID: "mallet", Space: protocol.DefaultSpace}
	carol  = &protocol.Principal{Kind: protocol.KindOperator, ID: "carol", Space: "lab"}
	root   = &protocol.Principal{Kind: protocol.KindOperator, ID: "root", Roles: []string{protocol.RoleAdministrator}}
)

// The certificates of the tests, by what they are about.
const (
	routerCert = "1111111111111111" // held by router
	spareCert  = "2222222222222222" // held by spare
	lampCert   = "3333333333333333" // held by lamp, for the role light
	newCert    = "4444444444444444" // held by router, a renewal
)

// Surroundings are everything a service asks.
type surroundings struct {
	mu      sync.Mutex
	agents  map[protocol.AgentID][]protocol.SkillID // which skills they serve
	owner   map[protocol.AgentID]string             // principal that registered them
	online  map[protocol.AgentID]bool
	channel map[protocol.CapID]Channel
	members map[protocol.CapID][]protocol.SkillID
	certs   map[protocol.Serial]*certificate
}

// A certificate is one as a certificate authority knows it.
type certificate struct {
	skill   protocol.SkillID
	roles   []string
	scenes  []protocol.SceneType
	holder  string // id of the principal that has the key
	ended   protocol.Code
	renewed protocol.Serial
}

func newSurroundings() *surroundings {
	return &surroundings{
		agents: map[protocol.AgentID][]protocol.SkillID{"agent-router": {"router"}, "agent-spare": {"spare"}, "agent-lamp": {"lamp"}},
		owner:  map[protocol.AgentID]string{"agent-router": "agent-router", "agent-spare": "agent-spare", "agent-lamp": "lamp"},
		online: map[protocol.AgentID]bool{"agent-router": true, "agent-spare": true, "agent-lamp": true},
		channel: map[protocol.CapID]Channel{
			"home":   {Active: true, MaxMembers: 4},
			"asleep": {MaxMembers: 4},
			"office": {Active: true, Scenes: []protocol.SceneType{"OFFICE"}, MaxMembers: 4},
		},
		members: map[protocol.CapID][]protocol.SkillID{"home": {"router", "spare", "lamp"}, "asleep": {"router"}, "office": {"router"}},
		certs: map[protocol.Serial]*certificate{
			routerCert: {skill: "router", roles: []string{RouteRole}, scenes: []protocol.SceneType{"HOME", "OFFICE"}, holder: "agent-router"},
			newCert:    {skill: "router", roles: []string{RouteRole}, scenes: []protocol.SceneType{"HOME", "OFFICE"}, holder: "agent-router"},
			spareCert:  {skill: "spare", roles: []string{RouteRole}, scenes: []protocol.SceneType{"HOME"}, holder: "agent-spare"},
			lampCert:   {skill: "lamp", roles: []string{"light"}, scenes: []protocol.SceneType{"HOME"}, holder: "lamp"},
		},
	}
}

func (a *surroundings) SpeaksFor(who *protocol.Principal, space protocol.SpaceID, skill protocol.SkillID) (yes, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for agent, skills := range a.agents {
		if space == protocol.DefaultSpace && slices.Contains(skills, skill) {
			known = true
			yes = yes || a.owner[agent] == who.ID
		}
	}
	return yes, known
}

func (a *surroundings) ServedBy(_ protocol.SpaceID, agent protocol.AgentID) []protocol.SkillID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.agents[agent]
}

func (a *surroundings) SkillOnline(_ protocol.SpaceID, skill protocol.SkillID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for agent, skills := range a.agents {
		if a.online[agent] && slices.Contains(skills, skill) {
			return true
		}
	}
	return false
}

func (a *surroundings) RouteAgentOnline(who protocol.Party, _ protocol.SpaceID, skill protocol.SkillID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for agent, skills := range a.agents {
		if a.online[agent] && a.owner[agent] == who.ID && slices.Contains(skills, skill) {
			return true
		}
	}
	return false
}

func (a *surroundings) Channel(space protocol.SpaceID, id protocol.CapID) (Channel, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, ok := a.channel[id]
	return c, ok && space == protocol.DefaultSpace
}

func (a *surroundings) Belongs(_ protocol.SpaceID, id protocol.CapID, skill protocol.SkillID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.members[id], skill)
}

func (a *surroundings) Authorize(_ context.Context, call *commands.Call, need Need) (Grant, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	serial := need.Serial
	if serial == "" {
		serial = call.Principal.CertSerial
	}
	c := a.certs[serial]
	refuse := func(code protocol.Code) (Grant, error) {
		return Grant{}, protocol.Errorf(code, "refused")
	}
	switch {
	case serial == "":
		return refuse(protocol.CertificateRequired)
	case c == nil:
		return refuse(protocol.CertificateUnknown)
	case c.ended != "":
		return refuse(c.ended)
	case c.skill != need.Skill || !slices.Contains(c.roles, need.Role) || !slices.Contains(c.scenes, need.SceneType):
		return refuse(protocol.OutsideScope)
	case c.holder != call.Principal.ID:
		return refuse(protocol.ProofFailed)
	}
	return Grant{Serial: serial}, nil
}

func (a *surroundings) Current(serial protocol.Serial) (protocol.Serial, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch c := a.certs[serial]; {
	case c == nil:
		return "", protocol.Errorf(protocol.CertificateUnknown, "unknown")
	case c.ended == protocol.CertificateExpired && c.renewed != "":
		return c.renewed, nil
	case c.ended != "":
		return "", protocol.Errorf(c.ended, "ended")
	}
	return serial, nil
}

// A world is a service with everything around it replaced.
type world struct {
	*Service
	t      testing.TB
	around *surroundings
	scenes *recordstest.Memory[Scene]
	router *commands.Router
	stop   func()
	asked  int

	mu       sync.Mutex
	events   []string // "HOME/home scene.joined lamp"
	payloads []Event
	retained map[string]string
	lost     []protocol.CapID
}

func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, around: newSurroundings(), scenes: recordstest.New[Scene](), retained: map[string]string{}}
	w.start(change...)
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) start(change ...func(*Options)) {
	w.t.Helper()
	o := Options{
		Scenes: w.scenes, Skills: w.around, Channels: w.around, Certificates: w.around, Publish: w.publish,
		Retained: w.keptTopics, Patience: time.Hour,
		MembershipLost: func(_ protocol.SceneType, id protocol.CapID) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.lost = append(w.lost, id)
		},
	}
	for _, f := range change {
		f(&o)
	}
	w.Service = New(o)
	set, err := commands.NewSet(w.Commands()...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.router = commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	eventually.Holds(w.t, "the service runs", w.news.Begun)
	if o.InCharge == nil {
		w.charged()
	}
	router := w.router
	w.stop = func() {
		_ = router.Close(context.Background())
		cancel()
		<-done
	}
}

// charged waits until the service has taken charge, which gives those that lead time,
// and looks at what is noted from then on.
func (w *world) charged() {
	w.t.Helper()
	w.notes.leave(func() { w.notes.scenes["none"] = true })
	eventually.Holds(w.t, "the service is in charge", func() bool {
		w.notes.mu.Lock()
		defer w.notes.mu.Unlock()
		return !w.notes.scenes["none"]
	})
}

// restart is what a crash and a new start leave: the table and what is
// retained.
func (w *world) restart(change ...func(*Options)) {
	w.stop()
	w.scenes.Restart()
	w.start(change...)
}

func (w *world) publish(_ protocol.Recipients, m protocol.Message) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	topic := strings.TrimSuffix(strings.TrimPrefix(m.Topic, "aibridge/scene/"), "/event")
	if len(m.Payload) == 0 {
		delete(w.retained, topic)
		return 0, nil
	}
	e, err := protocol.DecodeEvent(bytes.Clone(m.Payload), protocol.Limits{})
	if err != nil {
		w.t.Errorf("event on %s: %v", m.Topic, err)
		return 0, nil
	}
	var data Event
	if err := json.Unmarshal(e.Data, &data); err != nil {
		w.t.Errorf("event on %s: %v", m.Topic, err)
	}
	if m.Retain {
		w.retained[topic] = e.Name + " " + string(data.Status)
	}
	w.events = append(w.events, strings.TrimSpace(topic+" "+e.Name+" "+string(data.Skill)))
	w.payloads = append(w.payloads, data)
	return 0, nil
}

func (w *world) keptTopics(string) iter.Seq2[string, protocol.SpaceID] {
	w.mu.Lock()
	defer w.mu.Unlock()
	topics := make(map[string]protocol.SpaceID, len(w.retained))
	for topic := range w.retained {
		topics["aibridge/scene/"+topic+"/event"] = protocol.DefaultSpace
	}
	return maps.All(topics)
}

func (w *world) kept(topic string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retained[topic]
}

// told waits until the event was published, and returns what it says.
func (w *world) told(event string) Event {
	w.t.Helper()
	var found Event
	eventually.Holds(w.t, event+" is told", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.Index(w.events, event)
		if i >= 0 {
			found = w.payloads[i]
		}
		return i >= 0
	})
	return found
}

func (w *world) silent(event string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.events, event) {
		w.t.Errorf("%s is told", event)
	}
}

// forget forgets the events so far.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events, w.payloads = nil, nil
}

// ask runs a command and returns its result.
func (w *world) ask(who *protocol.Principal, command, params string) (json.RawMessage, error) {
	w.t.Helper()
	w.asked++
	request := protocol.Request{Version: protocol.Version, ID: strconv.Itoa(w.asked), Command: command, Params: []byte(params)}
	response := w.router.Handle(context.Background(), commands.Inbound{Principal: who, Body: request.Append(nil), Door: "test"})
	if response.Err != nil {
		return response.Result, response.Err
	}
	return response.Result, nil
}

// must runs a command that has to succeed.
func (w *world) must(who *protocol.Principal, command, params string) map[string]any {
	w.t.Helper()
	result, err := w.ask(who, command, params)
	if err != nil {
		w.t.Fatalf("%s %s: %v %v", command, params, err, protocol.AsError(err).Details)
	}
	var m map[string]any
	if err := json.Unmarshal(result, &m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// refused runs a command that has to fail with the code.
func (w *world) refused(code protocol.Code, who *protocol.Principal, command, params string) *protocol.Error {
	w.t.Helper()
	result, err := w.ask(who, command, params)
	if protocol.CodeOf(err) != code {
		w.t.Errorf("%s %s: got %s, %v, want %s", command, params, result, err, code)
	}
	return protocol.AsError(err)
}

// look is a scene in a few words: "active router: router agent_route online, lamp light online".
func (w *world) look(t protocol.SceneType) string {
	w.t.Helper()
	result, err := w.ask(root, "scene.query", `{"scene_type":"`+string(t)+`"}`)
	if err != nil {
		w.t.Fatal(err)
	}
	var q QueryResult
	if err := json.Unmarshal(result, &q); err != nil {
		w.t.Fatal(err)
	}
	if len(q.Scenes) != 1 {
		return strconv.Itoa(len(q.Scenes)) + " scenes"
	}
	v := q.Scenes[0]
	text := string(v.Status) + " " + string(v.Owner)
	if v.Acting != v.Owner && v.Acting != "" {
		text += "/" + string(v.Acting)
	}
	if v.Reason != "" {
		text += " (" + v.Reason + ")"
	}
	for i, m := range v.Members {
		text += map[bool]string{true: ":", false: ","}[i == 0] + " " + string(m.Skill) + " " + m.Role + " " + m.Status
	}
	return text
}

// becomes waits until a scene looks like this.
func (w *world) becomes(t protocol.SceneType, want string) {
	w.t.Helper()
	var got string
	for deadline := time.Now().Add(eventually.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if got = w.look(t); got == want {
			return
		}
	}
	w.t.Fatalf("the scene is\n%s, want\n%s", got, want)
}

// connect has an agent come or go.
func (w *world) connect(agent protocol.AgentID, online bool) {
	w.around.mu.Lock()
	w.around.online[agent] = online
	w.around.mu.Unlock()
	w.AgentChanged(protocol.DefaultSpace, agent)
}

// end ends a certificate.
func (w *world) end(serial protocol.Serial, code protocol.Code) {
	w.around.mu.Lock()
	w.around.certs[serial].ended = code
	skill := w.around.certs[serial].skill
	w.around.mu.Unlock()
	w.SkillChanged(protocol.DefaultSpace, skill)
}

// exclude takes a skill off a Cap.
func (w *world) exclude(id protocol.CapID, skill protocol.SkillID) {
	w.around.mu.Lock()
	w.around.members[id] = slices.DeleteFunc(slices.Clone(w.around.members[id]), func(s protocol.SkillID) bool { return s == skill })
	w.around.mu.Unlock()
	w.CapChanged(protocol.DefaultSpace, id)
}

// The declarations of the tests.
const (
	declareRouter = `{"scene_type":"HOME","skill_id":"router","skill_role":"agent_route","is_owner_declaration":true,"cap_id":"home","cert_sn":"` + routerCert + `"}`
	declareSpare  = `{"scene_type":"HOME","skill_id":"spare","skill_role":"agent_route","is_owner_declaration":false,"cap_id":"home","cert_sn":"` + spareCert + `"}`
	joinLamp      = `{"scene_type":"HOME","cap_id":"home","skill_id":"lamp","skill_role":"light"}`
	cancelRouter  = `{"scene_type":"HOME","skill_id":"router","cap_id":"home"}`
)

// full has everybody take part in the scene HOME.
func (w *world) full() {
	w.t.Helper()
	w.must(router, "scene.declare", declareRouter)
	w.must(spare, "scene.declare", declareSpare)
	w.must(lamp, "scene.join", joinLamp)
}
