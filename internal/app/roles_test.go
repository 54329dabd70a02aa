package app_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/policy"
)

var update = flag.Bool("update", false, "write the golden files")

const rolesFile = "testdata/roles.golden"

// everyRole is somebody of each role, called me.
var everyRole = []struct {
	kind protocol.Kind
	role string
}{
	{protocol.KindOperator, protocol.RoleAdministrator},
	{protocol.KindOperator, protocol.RoleOperator},
	{protocol.KindAgent, protocol.RoleRouteAgent},
	{protocol.KindAgent, protocol.RoleEndAgent},
	{protocol.KindAgent, "site"},
	{protocol.KindSkill, protocol.RoleSkill},
	{protocol.KindOperator, protocol.RoleObserver},
	{protocol.KindOperator, "officer:appstore"},
	{protocol.KindOperator, "none"},
}

// TestWhatEachRoleMayDo holds the policies that come with the bridge to a
// table of every command. Whoever adds a command decides who may run it, here:
//
//	go test ./internal/app -run TestWhatEachRoleMayDo -update
func TestWhatEachRoleMayDo(t *testing.T) {
	t.Parallel()
	set := app.Commands()
	engine, err := policy.New(policy.Options{Actions: set})
	if err != nil {
		t.Fatal(err)
	}
	actions := []string{policy.ActFor, policy.ReadMetrics, policy.TakeBackup, policy.ExportAudit}
	for c := range set.All() {
		actions = append(actions, c.Action)
	}
	slices.Sort(actions)
	var got bytes.Buffer
	w := tabwriter.NewWriter(&got, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "action")
	for _, r := range everyRole {
		fmt.Fprint(w, "\t", r.role)
	}
	fmt.Fprintln(w)
	for _, action := range slices.Compact(actions) {
		fmt.Fprint(w, action)
		family, _, _ := strings.Cut(action, ":")
		for _, r := range everyRole {
			who := &protocol.Principal{Kind: r.kind, ID: "me", Roles: []string{r.role}}
			may := func(id string) bool {
				q := policy.Query{Who: who, Action: action, Type: family, ID: id}
				if family == "state" { // is its agent's
					q.Facts = &policy.Facts{Agents: []string{id}}
				}
				return engine.Decide(&q).Allowed
			}
			word := "-"
			switch {
			case may("other"):
				word = "yes"
			case may("me"):
				word = "own"
			}
			fmt.Fprint(w, "\t", word)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	if *update {
		if err := os.WriteFile(rolesFile, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(rolesFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("who may do what has changed; if that is meant, run with -update\n%s", got.String())
	}
}

// TestShippedPoliciesSpeakOfWhatThereIs has the validator look at the policies
// of the bridge with all of its commands.
func TestShippedPoliciesSpeakOfWhatThereIs(t *testing.T) {
	t.Parallel()
	engine, err := policy.New(policy.Options{Actions: app.Commands()})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.CheckShipped(); err != nil {
		t.Error(err)
	}
}

// TestDevicesAreGrantedCommandsOneByOne keeps families out of the policies of
// devices: a command that is added to a family is nobody's until somebody
// grants it. The commands that agents register have no names to list.
func TestDevicesAreGrantedCommandsOneByOne(t *testing.T) {
	t.Parallel()
	family := regexp.MustCompile(`Action::"([a-z_]+)"`)
	for _, file := range []string{"devices.cedar", "route_agent.cedar"} {
		text, err := os.ReadFile("../../security/policy/shipped/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range family.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "extension" {
				t.Errorf("%s grants the family %s: list its commands", file, m[1])
			}
		}
	}
}
