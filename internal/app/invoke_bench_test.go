package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/commands"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/registry"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/policy"
)

// A wireless bridge is all of it but the MQTT server: what it publishes goes
// to a function.
type wireless struct {
	door     *mqttdoor.Door
	router   *commands.Router
	registry *registry.Service
	policies *policy.Engine
	publish  func(m protocol.Message) (int, error)
}

func (w *wireless) Publish(_ protocol.Recipients, m protocol.Message) (int, error) {
	return w.publish(m)
}

func newWireless(b *testing.B) *wireless {
	b.Helper()
	config := DefaultConfig()
	config.Data = b.TempDir()
	log := slog.New(slog.DiscardHandler)
	nats, err := storage.Connect(config, log)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nats.Close)
	s, err := storage.OpenStore(b.Context(), nats, config, log, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	claims, err := storage.OpenEvidence(config, log, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = claims.Close() })

	w := &wireless{publish: func(protocol.Message) (int, error) { return 0, nil }}
	topics := protocol.NewTopics("")
	w.registry, err = registry.New(registry.Options{
		Agents:    store.NewTable[registry.Agent](s, "agent"),
		Skills:    store.NewTable[registry.SkillRecord](s, "skill"),
		Resources: store.NewTable[registry.ResourceRecord](s, "resource"),
		Publisher: w,
		Topics:    topics,
	})
	if err != nil {
		b.Fatal(err)
	}
	keys := store.NewTable[security.Key](s, "key")
	if err := s.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	ring, err := security.OpenKeyring(config.Data, keys)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := keys.Put(b.Context(), anna.Credential, &security.Key{ID: anna.Credential, Principal: anna.ID, Kind: anna.Kind, Space: anna.Space, Roles: anna.Roles}); err != nil {
		b.Fatal(err)
	}
	credentials := security.NewCredentials(clock.New())
	credentials.Use(security.Sources{Keys: ring})
	set, err := commands.NewSet(append(commands.Builtin(), w.registry.Commands()...)...)
	if err != nil {
		b.Fatal(err)
	}
	policies, err := policy.New(policy.Options{Actions: set})
	if err != nil {
		b.Fatal(err)
	}
	w.policies = policies
	owner := func(protocol.SpaceID, string) (*protocol.Principal, bool) { return anna, true }
	router := commands.NewRouter(set, commands.RouterOptions{
		Authorizer: security.NewAuthorizer(policies), Credentials: credentials, Claims: claims, MaxRemembered: 1 << 14,
	})
	b.Cleanup(func() { _ = router.Close(b.Context()) })
	w.router = router
	w.door = mqttdoor.New(mqttdoor.Options{
		Router: router, Publisher: w, Topics: topics, BridgeID: "bridge",
		MayRespond: security.NewTopicRights(security.TopicOptions{Topics: topics, Policies: policies, Owner: owner}).MayRespond, Log: log,
	})
	return w
}

// anna calls.
var anna = &protocol.Principal{
	Kind: protocol.KindOperator, ID: "anna", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleAdministrator},
	Method: protocol.MethodAPIKey, Credential: "k",
}

const (
	callerTopic = "aibridge/client/caller/response"
	deviceTopic = "aibridge/agent/lamp-1/request"
	answerTopic = "aibridge/agent/lamp-1/response"
)

// enroll registers an agent with a skill, on a connection that listens.
func (w *wireless) enroll(b *testing.B, device *broker.Client) {
	b.Helper()
	w.registry.Connected(device, device.ID, device.Principal())
	w.registry.Subscribed(device, deviceTopic)
	for i, text := range []string{
		`"agent.register","params":{"agent_id":"lamp-1","type":"end_agent"}`,
		`"skill.register","params":{"agent_id":"lamp-1","skill":{"skill_id":"lamp","name":"Lamp","description":"A lamp","version":"1.0.0","type":"custom",` +
			`"capabilities":[{"capability_id":"switch","params_schema":{"type":"object","required":["on"],"properties":{"on":{"type":"boolean"},"note":{"type":"string"}}}}]}}`,
	} {
		answered := make(chan *protocol.Response, 1)
		w.publish = func(m protocol.Message) (int, error) {
			if m.Topic == callerTopic {
				r, err := protocol.DecodeResponse(m.Payload, protocol.Limits{})
				if err != nil {
					b.Error(err)
				}
				answered <- r
			}
			return 1, nil
		}
		w.door.Request(&broker.Publication{Client: device, Message: protocol.Message{
			ResponseTopic: callerTopic,
			Payload:       fmt.Appendf(nil, `{"version":"0.6.3","id":"%d","timestamp":0,"type":"request","command":%s,"metadata":{}}`, i, text),
		}})
		if r := <-answered; r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}

// A call is a publication of 512 bytes whose id changes from use to use.
type benchCall struct {
	broker.Publication
	id []byte // within the payload
}

func newBenchCall(caller *broker.Client) *benchCall {
	const id = "123e4567-e89b-42d3-a456-000000000000"
	payload := []byte(`{"version":"0.6.3","id":"` + id + `","timestamp":0,"type":"request","command":"skill.invoke",` +
		`"params":{"skill_id":"lamp","capability_id":"switch","params":{"on":true,"note":"` + strings.Repeat("x", 200) + `"}},` +
		`"metadata":{"trace_id":"456e7890-e12b-44d5-a678-901234567890","timeout":30000}}`)
	at := bytes.Index(payload, []byte(id))
	return &benchCall{broker.Publication{Client: caller, Message: protocol.Message{
		Topic: "aibridge/bridge/request", QoS: 1, Payload: payload, ResponseTopic: callerTopic, CorrelationData: []byte("12345678"),
	}}, payload[at : at+len(id)]}
}

func (c *benchCall) next() *broker.Publication {
	for i := len(c.id) - 1; ; i-- {
		if c.id[i] != '9' {
			c.id[i]++
			return &c.Publication
		}
		c.id[i] = '0'
	}
}

// BenchmarkInvoke is skill.invoke from the publication of the caller to the
// publication of the answer, without a network: the door, the router with
// claims in a file, the registry there and back. One goroutine hands in what
// the clients publish, as the MQTT server does. Answering is the device's
// part, which is as small as it can be.
func BenchmarkInvoke(b *testing.B) {
	for _, window := range []int{1, 16} {
		b.Run(fmt.Sprintf("window=%d", window), func(b *testing.B) { benchmarkInvoke(b, newWireless(b), window) })
	}
}

// BenchmarkInvokeOnTrial is BenchmarkInvoke while policies are on trial.
func BenchmarkInvokeOnTrial(b *testing.B) {
	for name, text := range map[string]string{
		"agrees":  `forbid (principal, action == Action::"skill:invoke", resource == Skill::"door");`,
		"differs": `forbid (principal, action == Action::"skill:invoke", resource == Skill::"lamp");`,
	} {
		b.Run(name, func(b *testing.B) {
			w := newWireless(b)
			trials := recordstest.New[policy.Record]()
			policy.NewService(policy.ServiceOptions{Engine: w.policies, Records: recordstest.New[policy.Record](), Trials: trials})
			if _, err := trials.Put(b.Context(), "tried", &policy.Record{Name: "tried", Text: text}); err != nil {
				b.Fatal(err)
			}
			benchmarkInvoke(b, w, 16)
		})
	}
}

func benchmarkInvoke(b *testing.B, w *wireless, window int) {
	who := anna
	device := broker.NewClient("lamp-1", who)
	w.enroll(b, device)

	var replies protocol.Replies
	published := make(chan protocol.Message, 4*window)
	w.publish = func(m protocol.Message) (int, error) {
		m.Payload, m.CorrelationData = bytes.Clone(m.Payload), bytes.Clone(m.CorrelationData)
		published <- m
		return 1, nil
	}
	call := newBenchCall(broker.NewClient("caller", who))
	answer := []byte(`{"version":"0.6.3","id":"00000000-0000-0000-0000-000000000000","timestamp":1737000000000,"type":"response",` +
		`"status":"success","result":{"on":true,"note":"` + strings.Repeat("y", 200) + `"},"error":null,"metadata":{"sender_id":"lamp-1","warnings":[]}}`)
	at := bytes.Index(answer, []byte("00000000-"))
	b.ReportAllocs()
	b.ResetTimer()
	for range window {
		w.door.Request(call.next())
	}
	next := func() protocol.Message {
		if len(published) == 0 {
			w.door.Flush()
		}
		return <-published
	}
	for done := 0; done < b.N; {
		switch m := next(); m.Topic {
		case deviceTopic:
			copy(answer[at:], m.CorrelationData)
			w.registry.Answer(answerTopic, who, &replies, answer, m.CorrelationData)
		case callerTopic:
			if done == 0 && !bytes.Contains(m.Payload, []byte(`"status":"success"`)) {
				b.Fatalf("answered %s", m.Payload)
			}
			done++
			w.door.Request(call.next())
		}
	}
	b.StopTimer()
	w.publish = func(protocol.Message) (int, error) { return 0, nil }
}
