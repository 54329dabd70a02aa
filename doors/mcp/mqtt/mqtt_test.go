package mqtt

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func TestTopicsAreTakenApart(t *testing.T) {
	t.Parallel()
	for topic, want := range map[string]place{
		"$mcp-server/esp/lamp":               {control, "", "esp", "lamp"},
		"$mcp-server/esp/home/lamp":          {control, "", "esp", "home/lamp"},
		"$mcp-server/presence/esp/home/lamp": {presence, "", "esp", "home/lamp"},
		"$mcp-server/capability/esp/lamp":    {capability, "", "esp", "lamp"},
		"$mcp-client/presence/c":             {clientPresence, "c", "", ""},
		"$mcp-client/capability/c":           {clientCapability, "c", "", ""},
		"$mcp-rpc/c/esp/home/lamp":           {rpc, "c", "esp", "home/lamp"},
		"$mcp-rpc/c/+/#":                     {rpc, "c", "+", "#"},
		"$mcp-server/esp":                    {},
		"$mcp-server/esp/":                   {},
		"$mcp-server/esp//lamp":              {},
		"$mcp-server/esp/lamp/":              {},
		"$mcp-server/#":                      {},
		"$mcp-server//lamp":                  {},
		"$mcp-server/presence/esp":           {},
		"$mcp-client/presence/":              {},
		"$mcp-client/presence/c/d":           {},
		"$mcp-client/c":                      {},
		"$mcp-rpc/c":                         {},
		"$mcp-rpc/c/esp":                     {},
		"$mcp-rpc/#/esp/lamp":                {},
		"$mcp-rpc//esp/lamp":                 {},
		"$mcp-else/c":                        {},
		"mcp-rpc/c/esp/lamp":                 {},
		"$mcp-server/presence/e/" + strings.Repeat("x", 600): {},
	} {
		got, ok := parse(topic)
		if ok != (want != place{}) || ok && got != want {
			t.Errorf("%s: %+v %v", topic, got, ok)
		}
		if ok && got.topic() != topic {
			t.Errorf("%s is put together as %s", topic, got.topic())
		}
	}
}

func TestNamesOfToolsAreMadeOfServerNames(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"lamp": "lamp", "Home/Kitchen/Lamp_1": "home-kitchen-lamp_1", "demo.server/x y": "demo-server-x-y", "-a-": "a", "éé": "", "%%": "",
	} {
		if got := toolsName(from); got != want {
			t.Errorf("%q makes %q", from, got)
		}
	}
}

// anything may be published.
type anything struct{}

func (anything) MayPublish(*broker.Client, string, bool) broker.Verdict { return broker.Verdict{} }
func (anything) MaySubscribe(*broker.Client, string) broker.Verdict     { return broker.Verdict{} }

// What is published in the name of a client that may be gone, such as its Will, announces
// no server: nobody would take it back.
func TestWhoIsGoneAnnouncesNothing(t *testing.T) {
	t.Parallel()
	b, err := broker.New(broker.Options{
		Authenticate: func(context.Context, broker.Credentials) (*protocol.Principal, error) { return nil, errGone },
		Permissions:  anything{}, SysInterval: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close(t.Context()) }()
	top := Open(Options{Servers: new(servers.Service), Log: slog.New(slog.DiscardHandler)}, b.Handle)
	v, _ := b.PublishFor(broker.NewClient("esp", &protocol.Principal{ID: "esp"}), protocol.Message{
		Topic: "$mcp-server/presence/esp/lamp", Retain: true, Payload: []byte(`{"jsonrpc":"2.0","method":"notifications/server/online","params":{}}`),
	})
	if !v.Allowed() || len(top.devices) > 0 {
		t.Errorf("%+v, %d devices", v, len(top.devices))
	}
}

// FuzzCheckNote: no announcement harms, and one that is taken is a notification.
func FuzzCheckNote(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","method":"notifications/server/online","params":{"server_name":"x","meta":{"rbac":{"roles":[]}}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"notifications/server/online","params":[]}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":null,"method":"notifications/server/online"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if checkNote(text) == nil && (len(text) > maxNote || !strings.Contains(string(text), "2.0")) {
			t.Fatalf("%q is taken", text)
		}
	})
}

// FuzzHear: no message of a device harms, what is passed on is JSON-RPC, and no more of it
// than is read waits.
func FuzzHear(f *testing.F) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `[]`, ``, disconnected,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		top := &Topics{Options: Options{Log: slog.New(slog.DiscardHandler)}, devices: map[deviceID]*device{}, talks: map[string]*talk{}}
		who := broker.NewClient("esp", &protocol.Principal{ID: "esp"})
		k := newTalk(&device{topics: top, serverName: "lamp", owner: who.Principal().Party()}, who)
		for range mostWaiting + 1 {
			v := k.hear(text)
			if v.Allowed() {
				continue
			}
			if v.Reason == quotaExceeded && len(k.incoming) < mostWaiting {
				t.Fatalf("%q is too much: %d wait", text, len(k.incoming))
			}
			break
		}
		if v := k.hearChange(text); v.Allowed() && len(k.incoming) == 0 {
			t.Fatalf("%q is allowed and dropped", text)
		}
		for range len(k.incoming) {
			if m := <-k.incoming; m == nil {
				t.Fatal("there is a message that is none")
			}
		}
	})
}

func TestADeviceThatSendsMoreThanIsReadEndsItsSession(t *testing.T) {
	t.Parallel()
	top := &Topics{Options: Options{Log: slog.New(slog.DiscardHandler)}, devices: map[deviceID]*device{}, talks: map[string]*talk{}}
	who := broker.NewClient("esp", &protocol.Principal{ID: "esp"})
	k := newTalk(&device{topics: top, serverName: "lamp"}, who)
	top.talks[k.id] = k
	for range mostWaiting {
		if v := k.hear([]byte(`{"jsonrpc":"2.0","method":"notifications/progress"}`)); !v.Allowed() {
			t.Fatal(v.Text)
		}
	}
	if v := k.hear([]byte(`{"jsonrpc":"2.0","method":"notifications/progress"}`)); v.Reason != quotaExceeded {
		t.Errorf("one more: %+v", v)
	}
	if len(top.talks) != 0 || k.send(k.at, nil) == nil {
		t.Error("the session goes on")
	}
	if _, err := jsonrpc.DecodeMessage([]byte(disconnected)); err != nil {
		t.Error(err)
	}
}
