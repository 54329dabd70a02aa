package policy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

type nothing struct{}

// setOf is a set of commands that do nothing.
func setOf(t testing.TB, actions ...string) *commands.Set {
	t.Helper()
	var list []commands.Command
	for _, spec := range actions {
		action, effect, _ := strings.Cut(spec, " ")
		e := commands.Read
		if effect != "" {
			if err := e.UnmarshalText([]byte(effect)); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, commands.New(commands.Spec{
			Name: strings.ReplaceAll(action, ":", "."), Summary: "Do nothing.", Effect: e, Action: action, Example: "{}",
		}, func(context.Context, *commands.Call, nothing) (nothing, error) { return nothing{}, nil }))
	}
	set, err := commands.NewSet(list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

var someActions = []string{
	"agent:get", "agent:heartbeat write", "agent:list", "agent:register write", "agent:unregister write", "approval:decide write", "batch:execute act",
	"bridge:describe", "cap:query", "cap:update write", "cert:get", "cert:issue write", "cert:request write", "group:data.get",
	"group:dispatch act", "key:create write", "key:list", "llm:query act", "policy:get", "policy:put write", "scene:declare write",
	"skill:discover", "skill:invoke act", "skill:register write", "skill:unregister write", "task:get", "vfs:list", "vfs:register write",
}

func newEngine(t testing.TB, change ...func(*Options)) *Engine {
	t.Helper()
	o := Options{Actions: setOf(t, someActions...)}
	for _, f := range change {
		f(&o)
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// put puts a text in force.
func put(t testing.TB, e *Engine, name, text string) {
	t.Helper()
	if err := e.set(Source{Stored, name}, text, "test", e.opts.Now()); err != nil {
		t.Fatal(err)
	}
}

func someone(kind protocol.Kind, id string, roles ...string) *protocol.Principal {
	return &protocol.Principal{Kind: kind, ID: id, Space: protocol.DefaultSpace, Roles: roles}
}

var (
	root     = someone(protocol.KindOperator, "root", protocol.RoleAdministrator)
	operator = someone(protocol.KindOperator, "olga", protocol.RoleOperator)
	observer = someone(protocol.KindOperator, "otto", protocol.RoleObserver)
	lamp     = someone(protocol.KindAgent, "lamp")
	router   = someone(protocol.KindAgent, "router", protocol.RoleRouteAgent)
	heating  = someone(protocol.KindSkill, "heating")
	nobody   = someone(protocol.KindOperator, "nobody")
)

// known are the facts of a world.
type known map[string]Facts

func (k known) Facts(_ protocol.SpaceID, family, id string) (Facts, bool) {
	f, ok := k[family+"/"+id]
	return f, ok
}

func allowed(e *Engine, who *protocol.Principal, action, family, id string) bool {
	return e.Decide(&Query{Who: who, Action: action, Type: family, ID: id}).Allowed
}

// reasons are the ids of the policies that decided.
func reasons(e *Engine, q *Query) []string {
	x := e.Explain(q)
	var ids []string
	for _, r := range x.Policies {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return ids
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
