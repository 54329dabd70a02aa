package commands_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// agentEcho answers forwarded commands with what it was sent.
type agentEcho struct{}

func (agentEcho) Forward(_ context.Context, call *commands.Call, agent protocol.AgentID, command string, params json.RawMessage) (json.RawMessage, error) {
	return raw(`{"agent":%q,"command":%q,"sender":%q,"params":%s}`, agent, command, call.SenderID, params), nil
}

// wants understands schemas of the form {"wants":"member"}.
func wants(document json.RawMessage) (func(json.RawMessage) error, error) {
	var s struct{ Wants string }
	if err := json.Unmarshal(document, &s); err != nil || s.Wants == "" {
		return nil, protocol.Errorf(protocol.InvalidParameter, "is no schema")
	}
	return func(value json.RawMessage) error {
		if !strings.Contains(string(value), `"`+s.Wants+`"`) {
			return protocol.InvalidParam(s.Wants, "is missing")
		}
		return nil
	}, nil
}

func extensible(table *recordstest.Memory[commands.Namespace]) commands.RouterOptions {
	return commands.RouterOptions{Forwarder: agentEcho{}, Namespaces: table, Schemas: wants, Authorizer: &policy{}}
}

const blink = `{"agent_id":"alice-device","namespace":"acme.*","commands":[` +
	`{"name":"acme.blink","summary":"Blink.","params_schema":{"wants":"times"}},{"name":"acme.odd","summary":"Break.","result_schema":{"wants":"x"}}]}`

func TestAnAgentTakesANamespace(t *testing.T) {
	t.Parallel()
	table := recordstest.New[commands.Namespace]()
	n := newNode(t, extensible(table))
	wantSaid(t, n.call("0", "acme.blink", `{"times":3}`), "1002")
	wantSaid(t, n.call("1", "command.register", blink), `{"namespace":"acme.*","agent_id":"alice-device","commands":["acme.blink","acme.odd"],"revision":1}`)
	wantSaid(t, n.call("2", "acme.blink", `{"times":3}`), `{"agent":"alice-device","command":"acme.blink","sender":"alice","params":{"times":3}}`)
	wantSaid(t, n.call("3", "acme.blink", `{}`), "1001")
	wantSaid(t, n.call("4", "acme.odd", `{}`), "4012")
	wantSaid(t, n.call("5", "acme.none", `{}`), "1002")

	described := n.call("6", "bridge.describe", `{"command":"acme.blink"}`)
	for _, want := range []string{`"permission":"extension:acme.blink"`, `"effect":"act"`, `"params_schema":{"wants":"times"}`} {
		if !strings.Contains(string(described.Result), want) {
			t.Errorf("described as %s", described.Result)
		}
	}

	// It is still there after a restart, and gone after it was given back.
	again := newNode(t, extensible(table))
	if r := again.call("1", "acme.blink", `{"times":3}`); r.Err != nil {
		t.Error(r.Err)
	}
	wantSaid(t, again.call("2", "command.unregister", `{"namespace":"acme.*"}`), `{"namespace":"acme.*"}`)
	wantSaid(t, again.call("3", "acme.blink", `{"times":3}`), "1002")
	wantSaid(t, again.call("4", "command.unregister", `{"namespace":"acme"}`), "3001")
	wantSaid(t, n.call("7", "acme.blink", `{"times":3}`), "1002") // the other node follows
}

func TestNamespacesBelongToWhoTookThemInASpace(t *testing.T) {
	t.Parallel()
	n := newNode(t, extensible(recordstest.New[commands.Namespace]()))
	wantSaid(t, n.call("0", "command.register", strings.Replace(blink, "alice-device", "bob", 1)), "2003")
	if r := n.call("1", "command.register", blink); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := n.call("2", "command.register", strings.ReplaceAll(blink, "acme.blink", "acme.wink")); r.Err != nil {
		t.Error(r.Err)
	}
	wantSaid(t, n.call("3", "acme.blink", `{"times":3}`), "1002") // replaced
	bob := &node{n.Router, &protocol.Principal{Kind: protocol.KindAgent, ID: "bob", Space: protocol.DefaultSpace}}
	wantSaid(t, bob.call("1", "command.register", strings.Replace(blink, "alice-device", "bob", 1)), "3002")
	wantSaid(t, bob.call("2", "command.unregister", `{"namespace":"acme.*"}`), "2003")
	if r := bob.call("3", "acme.wink", `{"times":1}`); r.Err != nil {
		t.Error(r.Err)
	}
	elsewhere := &node{n.Router, &protocol.Principal{Kind: protocol.KindAgent, ID: "eve", Space: "other"}}
	wantSaid(t, elsewhere.call("1", "acme.wink", `{"times":1}`), "1002")
	wantSaid(t, elsewhere.call("2", "bridge.describe", `{"command":"acme.wink"}`), "3001")
	if r := elsewhere.call("3", "command.register", strings.Replace(blink, "alice-device", "eve", 1)); r.Err != nil {
		t.Error(r.Err)
	}
}

func TestBadRegistrationsAreRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t, extensible(recordstest.New[commands.Namespace]()), define("hello", commands.Read, greet))
	register := func(namespace, name, rest string) string {
		return string(raw(`{"agent_id":"alice-device","namespace":%q,"commands":[{"name":"acme.ok","summary":"x"},{"name":%q,"summary":"x"%s}]}`, namespace, name, rest))
	}
	for name, tc := range map[string]struct{ params, param string }{
		"family of the bridge":  {register("skill.*", "skill.x", ""), "namespace"},
		"family of this bridge": {register("test.*", "test.x", ""), "namespace"},
		"an effect":             {register("read.*", "read.unlock", ""), "namespace"},
		"another effect":        {register("act", "act.unlock", ""), "namespace"},
		"all agents' commands":  {register("extension.*", "extension.x", ""), "namespace"},
		"not a family":          {register("a.b.*", "acme.x", ""), "namespace"},
		"outside the namespace": {register("acme.*", "other.x", ""), "commands[1].name"},
		"bad name":              {register("acme.*", "acme.X", ""), "commands[1].name"},
		"twice":                 {register("acme.*", "acme.ok", ""), "commands[1].name"},
		"schema is none":        {register("acme.*", "acme.x", `,"params_schema":{}`), "commands[1].params_schema"},
		"schema is no object":   {register("acme.*", "acme.x", `,"result_schema":true`), "commands[1].result_schema"},
		"schema is too large":   {register("acme.*", "acme.x", `,"params_schema":{"wants":"`+strings.Repeat("x", 65<<10)+`"}`), "commands[1].params_schema"},
		"effect is none":        {register("acme.*", "acme.x", `,"effect":"destroy"`), "commands[1].effect"},
	} {
		r := n.call(name, "command.register", tc.params)
		if r.Err == nil || r.Err.Code != protocol.InvalidParameter || r.Err.Details["param_name"] != tc.param {
			t.Errorf("%s: got %s", name, r.Append(nil))
		}
	}
	plain := newNode(t, commands.RouterOptions{})
	wantSaid(t, plain.call("1", "command.register", blink), "3006")
	wantSaid(t, plain.call("2", "command.unregister", `{"namespace":"acme.*"}`), "3006")
}

func TestBridgeDescribeListsEverything(t *testing.T) {
	t.Parallel()
	n := newNode(t, extensible(recordstest.New[commands.Namespace]()), define("hello", commands.Read, greet))
	n.call("1", "command.register", blink)
	var result commands.DescribeResult
	if err := json.Unmarshal(n.call("2", "bridge.describe", `{}`).Result, &result); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range result.Commands {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "acme.blink acme.odd batch.execute bridge.describe command.register command.unregister test.hello" {
		t.Errorf("got %s", got)
	}
	r := n.call("3", "bridge.describe", `{"command":"acme.blnk"}`)
	if r.Err == nil || r.Err.Code != protocol.NotFound || r.Err.Details["did_you_mean"] != "acme.blink" {
		t.Errorf("got %v", r.Err)
	}
}

// TestANamespaceThatIsTheBridgesByNowIsNotServed starts on what an earlier
// version has let an agent take.
func TestANamespaceThatIsTheBridgesByNowIsNotServed(t *testing.T) {
	t.Parallel()
	table := recordstest.New[commands.Namespace]()
	n := newNode(t, extensible(table))
	if r := n.call("1", "command.register", strings.ReplaceAll(blink, "acme", "topic")); r.Err != nil {
		t.Fatal(r.Err)
	}
	var log strings.Builder
	later := extensible(table)
	later.Reserved, later.Log = []string{"topic"}, slog.New(slog.NewTextHandler(&log, nil))
	n = newNode(t, later)
	wantSaid(t, n.call("2", "topic.blink", `{"times":3}`), "1002")
	wantSaid(t, n.call("3", "command.register", strings.ReplaceAll(blink, "acme", "topic")), "1001")
	if !strings.Contains(log.String(), "not served") || !strings.Contains(log.String(), "namespace=topic") {
		t.Errorf("logged %s", log.String())
	}
	wantSaid(t, n.call("4", "command.unregister", `{"namespace":"topic"}`), `{"namespace":"topic.*"}`)
}
