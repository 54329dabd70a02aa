package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
	"github.com/golang-jwt/jwt/v5"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/tools/servers"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/token"
)

// threeClosed starts three bridges that work together and ask for credentials. It
// returns the administrator's key.
func threeClosed(t testing.TB, url string, change ...func(*app.Config)) (all [3]*bridgetest.Node, key string) {
	t.Helper()
	change = append(change, func(c *app.Config) {
		c.Dev = false
		c.Tokens.Issuers = []token.Issuer{{Issuer: "hs", Audience: []string{"aibridge"}, Secret: fileOf(t, []byte(issuerSecret)), RolesClaim: "roles", Roles: map[string]string{"device": protocol.RoleEndAgent}, ScopesClaim: "scope"}}
	})
	for i, id := range []string{"a", "b", "c"} {
		all[i] = bridgetest.Start(t, append(change, beside(t, url, id, all[0]))...)
	}
	return all, adminKey(t, all[0])
}

// adminOf is the administrator at a bridge of a cluster.
func adminOf(t *testing.T, n *bridgetest.Node, key string) *bridgetest.Raw {
	t.Helper()
	return n.Caller(t, "admin-"+n.Config.ID, withPassword("apikey", key))
}

// A credential is a way in, and how it is taken back.
type credential struct {
	connect func(t *testing.T, n *bridgetest.Node, id string) (*bridgetest.Raw, error)
	revoke  [2]string // command and params
}

// by is a way in by a user name and a password.
func by(user, password, command, params string) credential {
	return credential{
		connect: func(t *testing.T, n *bridgetest.Node, id string) (*bridgetest.Raw, error) {
			return n.TryConnect(t, id, withPassword(user, password))
		},
		revoke: [2]string{command, params},
	}
}

// TestWhatIsRevokedAtOneBridgeIsOfNoMoreUseAtAny takes credentials back at one bridge
// while connections stand on them at all, and tries them again everywhere.
func TestWhatIsRevokedAtOneBridgeIsOfNoMoreUseAtAny(t *testing.T) {
	t.Parallel()
	nodes, key := threeClosed(t, startNATS(t))
	admin := adminOf(t, nodes[0], key)
	apiKey := func(who string) (id, secret string) {
		made := must(t, admin, "key.create", fmt.Sprintf(`{"principal_id":%q,"kind":"operator","roles":["operator"]}`, who))
		return field(t, made, "key_id"), field(t, made, "key")
	}
	keyID, secret := apiKey("ada")
	certificate := issue(t, admin, "lighting")
	signed := func(more ...any) string {
		return sign(t, jwt.SigningMethodHS256, []byte(issuerSecret), claims("alice", more...))
	}
	credentials := map[string]credential{
		"a key":                     by("apikey", secret, "key.revoke", fmt.Sprintf(`{"key_id":%q}`, keyID)),
		"a token":                   by("jwt", signed("jti", "lost-1"), "token.revoke", `{"token_id":"lost-1"}`),
		"all tokens of a principal": by("jwt", sign(t, jwt.SigningMethodHS256, []byte(issuerSecret), claims("carol")), "token.revoke", `{"principal_id":"carol"}`),
		"a certificate": {
			connect: func(t *testing.T, n *bridgetest.Node, id string) (*bridgetest.Raw, error) {
				return n.TryConnectTLS(t, n.TLS(t, certificate), id)
			},
			revoke: [2]string{"cert.revoke", fmt.Sprintf(`{"serial":%q,"reason":"the key was lost"}`, serialIn(t, certificate))},
		},
	}
	_, other := apiKey("bert")
	kept := nodes[2].Caller(t, "bert", withPassword("apikey", other))
	for name, c := range credentials {
		t.Run(name, func(t *testing.T) {
			var live [3]*bridgetest.Raw
			for i, n := range nodes {
				eventually.Holds(t, name+" opens "+n.Config.ID, func() (in bool) {
					var err error
					live[i], err = c.connect(t, n, "client-"+n.Config.ID)
					return err == nil
				})
			}
			must(t, admin, c.revoke[0], c.revoke[1])
			began := time.Now()
			for i, n := range nodes {
				if d := dismissed(t, live[i]); d.ReasonCode != 0x98 {
					t.Errorf("the connection with %s ended with %#x", n.Config.ID, d.ReasonCode)
				}
				t.Logf("ended at %s %v after the answer", n.Config.ID, time.Since(began))
			}
			for _, n := range nodes {
				if again, err := c.connect(t, n, "client-"+n.Config.ID); err == nil {
					t.Errorf("%s lets it in again", n.Config.ID)
					again.Drop()
				}
			}
		})
	}
	must(t, kept, "agent.list", `{}`) // nobody else is affected
}

// TestACallEndsWithACredentialThatIsRevokedElsewhere has the caller, the agent and who
// revokes at three bridges.
func TestACallEndsWithACredentialThatIsRevokedElsewhere(t *testing.T) {
	t.Parallel()
	nodes, key := threeClosed(t, startNATS(t))
	admin := adminOf(t, nodes[0], key)
	device := nodes[2].Device(t, "slow-1", "slow", `["wait"]`, withPassword("apikey", key))
	made := must(t, admin, "key.create", `{"principal_id":"ada","kind":"operator","roles":["operator"]}`)
	var caller *bridgetest.Raw
	eventually.Holds(t, "the key opens the second bridge", func() bool {
		var err error
		caller, err = nodes[1].TryConnect(t, "ada", withPassword("apikey", field(t, made, "key")))
		return err == nil
	})
	everywhere(t, "slow-1", "online", adminOf(t, nodes[1], key))
	caller.Send(t, "aibridge/bridge/request", envelope("long", "skill.invoke", `{"skill_id":"slow","capability_id":"wait"}`, `{"timeout":300000}`))
	call := device.Invocation(t)
	must(t, admin, "key.revoke", fmt.Sprintf(`{"key_id":%q}`, field(t, made, "key_id")))
	dismissed(t, caller)
	eventually.Holds(t, "the agent hears that nobody waits any more", func() bool {
		p := device.Next(t)
		return strings.Contains(string(p.Payload), `"task.cancel"`) && strings.Contains(string(p.Payload), call.ID)
	})
}

// TestAPolicyOfOneBridgeHoldsForWhoIsConnectedToAnother changes what connections that
// stand may do: commands, messages, and what they hear.
func TestAPolicyOfOneBridgeHoldsForWhoIsConnectedToAnother(t *testing.T) {
	t.Parallel()
	nodes, key := threeClosed(t, startNATS(t))
	admin := adminOf(t, nodes[0], key)
	secret := keyFor(t, admin, `{"principal_id":"ada","kind":"operator","roles":["operator"]}`)
	var callers [3]*bridgetest.Raw
	for i, n := range nodes {
		eventually.Holds(t, "the key is known everywhere", func() bool {
			var err error
			callers[i], err = n.TryConnect(t, "ada-"+n.Config.ID, withPassword("apikey", secret))
			return err == nil
		})
		callers[i].Listen(t, "aibridge/client/ada-"+n.Config.ID+"/response")
	}
	hold := func(what string, code protocol.Code, refused bool) {
		t.Helper()
		for _, c := range callers {
			eventually.Holds(t, what+" for "+c.ID, func() bool {
				answer := c.Ask(t, bridgetest.Request(protocol.NewID(), "agent.list", `{}`))
				ack, _ := c.Publish(t.Context(), &paho.Publish{Topic: "news/today", QoS: 1, Payload: []byte("x")})
				return ack != nil && protocol.CodeOf(errorOf(answer)) == code && (ack.ReasonCode == 0x87) == refused
			})
		}
	}
	ok := protocol.CodeOf(nil)
	hold("all is permitted", ok, false)
	must(t, admin, "policy.put", `{"name":"no","policy":"forbid (principal == Operator::\"ada\", action == Action::\"agent:list\", resource); forbid (principal == Operator::\"ada\", action == Action::\"topic:publish\", resource) when { resource.id like \"news/*\" };"}`)
	hold("it is forbidden", protocol.PermissionDenied, true)
	must(t, admin, "policy.remove", `{"name":"no"}`)
	hold("it is permitted again", ok, false)
}

// TestAnMCPServersToolsAreApprovedAndWithheldAtAllBridges has a server change a tool,
// which all bridges withhold until somebody approves it at one.
func TestAnMCPServersToolsAreApprovedAndWithheldAtAllBridges(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
	declare := func(description string) {
		sdk.AddTool(server, &sdk.Tool{Name: "read", Description: description}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "a note"}}}, nil, nil
		})
	}
	declare("Reads a note")
	handler := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
		handler.CloseClientConnections()
		handler.Close()
	})
	nodes, key := threeClosed(t, startNATS(t), func(c *app.Config) {
		c.MCP.Servers = []servers.Config{{Name: "notes", URL: handler.URL, Approve: servers.ApproveEach}}
	})
	var admins [3]*bridgetest.Raw
	for i, n := range nodes {
		admins[i] = adminOf(t, n, key)
	}
	var list struct {
		Servers []struct {
			Revision string
			Tools    []struct{ Tool, State string }
		}
	}
	shown := func(at *bridgetest.Raw) string {
		list.Servers = nil
		if err := json.Unmarshal(must(t, at, "mcp.server.list", `{}`), &list); err != nil || len(list.Servers) != 1 || len(list.Servers[0].Tools) != 1 {
			return ""
		}
		return list.Servers[0].Tools[0].State
	}
	all := func(state string, callable bool) {
		t.Helper()
		for _, at := range admins {
			var got string
			eventually.Holds(t, "the tool is "+state+" for "+at.ID, func() bool {
				got = shown(at)
				return got == state
			}, &got)
			answer := at.Ask(t, bridgetest.Request(protocol.NewID(), "mcp.tool.call", `{"server":"notes","tool":"read"}`))
			if (answer.Err == nil) != callable {
				t.Errorf("%s, the tool that is %s: %s %v", at.ID, state, answer.Result, answer.Err)
			}
		}
	}
	approve := func(at *bridgetest.Raw) {
		t.Helper()
		shown(at)
		must(t, at, "mcp.server.approve", fmt.Sprintf(`{"server":"notes","revision":%q}`, list.Servers[0].Revision))
	}
	all("new", false)
	approve(admins[0])
	all("approved", true)
	declare("Reads a note, and sends it to its author")
	all("changed", false)
	approve(admins[2])
	all("approved", true)
}
