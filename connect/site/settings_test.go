package site

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	good := Join{Name: "plant", URL: "mqtts://centre.example.com:8883", Key: "key", Principal: "centre", Agents: []string{"lamp-*"}}
	with := func(change func(*Join)) Settings {
		j := good
		change(&j)
		return Settings{Join: j}
	}
	for name, c := range map[string]struct {
		settings Settings
		fault    string
	}{
		"nothing":                 {Settings{}, ""},
		"a site":                  {Settings{Join: good}, ""},
		"sites":                   {Settings{Have: []Have{{Name: "a", Principal: "x"}, {Name: "a", Principal: "x", Space: "red"}}}, ""},
		"a name with a dot":       {with(func(j *Join) { j.Name = "a.b" }), "sites.join.name"},
		"no name":                 {with(func(j *Join) { j.Name = "" }), "sites.join.name"},
		"no address":              {with(func(j *Join) { j.URL = "" }), "sites.join.url"},
		"a password in it":        {with(func(j *Join) { j.URL = "mqtts://a:b@c" }), "sites.join.url"},
		"a key in the clear":      {with(func(j *Join) { j.URL = "mqtt://centre.example.com" }), "in the clear"},
		"roots without TLS":       {with(func(j *Join) { j.URL, j.Key, j.CA = "mqtt://127.0.0.1", "", "ca.pem" }), "for ca to be of use"},
		"no principal":            {with(func(j *Join) { j.Principal = "" }), "sites.join.principal"},
		"a bad pattern":           {with(func(j *Join) { j.Agents = []string{"["} }), "sites.join.agents[0]"},
		"a bad pattern of Caps":   {with(func(j *Join) { j.Caps = []string{"a", "["} }), "sites.join.caps[1]"},
		"a bad pattern of a tool": {with(func(j *Join) { j.Approvals = []string{""} }), "sites.join.approvals[0]"},
		"a bad pattern of files":  {with(func(j *Join) { j.Files, j.FilesURL = []string{"["}, "https://centre.example.com/vfs" }), "sites.join.files[0]"},
		"files":                   {with(func(j *Join) { j.Files, j.FilesURL = []string{"*"}, "https://centre.example.com:9010/vfs" }), ""},
		"files to nowhere":        {with(func(j *Join) { j.Files = []string{"*"} }), "sites.join.files_url"},
		"files by MQTT":           {with(func(j *Join) { j.FilesURL = "mqtts://centre.example.com/vfs" }), "sites.join.files_url"},
		"files with a password":   {with(func(j *Join) { j.FilesURL = "https://a:b@centre.example.com/vfs" }), "sites.join.files_url"},
		"files in the clear":      {with(func(j *Join) { j.FilesURL = "http://centre.example.com/vfs" }), "in the clear"},
		"no room below nothing":   {Settings{Have: []Have{{Name: "a", Principal: "x", Files: -1}}}, "sites.have[0].files_bytes"},
		"budgets":                 {with(func(j *Join) { j.Budgets = Budgets{true, Alone{Window: "day", Cost: 2}} }), ""},
		"a bad window":            {with(func(j *Join) { j.Budgets = Budgets{true, Alone{Window: "week"}} }), "sites.join.budgets.alone.window"},
		"less than nothing":       {with(func(j *Join) { j.Budgets = Budgets{true, Alone{Tokens: -1}} }), "must not be negative"},
		"no amount":               {with(func(j *Join) { j.Budgets = Budgets{true, Alone{Cost: math.NaN()}} }), "sites.join.budgets.alone.cost"},
		"a budget of its own":     {with(func(j *Join) { j.Budgets.Alone.Requests = 1 }), "sites.join.budgets.alone"},
		"two sites of a name":     {Settings{Have: []Have{{Name: "a", Principal: "x"}, {Name: "a", Principal: "y"}}}, "two sites"},
		"two names of a key":      {Settings{Have: []Have{{Name: "a", Principal: "x"}, {Name: "b", Principal: "x"}}}, "has a site already"},
		"a site without a key":    {Settings{Have: []Have{{Name: "a"}}}, "principal: is missing"},
		"a site without a name":   {Settings{Have: []Have{{Principal: "a"}}}, "is no name"},
	} {
		var faults []string
		c.settings.Check(false, func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) })
		if got := strings.Join(faults, "; "); (c.fault == "") != (got == "") || !strings.Contains(got, c.fault) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestPatternsChooseAgents(t *testing.T) {
	t.Parallel()
	j := Join{Agents: []string{"lamp-*", "door"}}
	for id, want := range map[protocol.AgentID]bool{"lamp-1": true, "door": true, "door-2": false, "oven": false} {
		if got := j.shows(id); got != want {
			t.Errorf("%s is shown: %t", id, got)
		}
	}
	if !new(Join).shows("anything") {
		t.Error("without patterns an agent is not shown")
	}
	if j := (Join{Caps: []string{"line-*"}}); !j.showsCap("line-1") || j.showsCap("hall") || new(Join).showsCap("line-1") {
		t.Error("patterns do not choose Caps, or Caps are shown without any")
	}
}

func TestASiteBindsItsOwnSkillsAlone(t *testing.T) {
	t.Parallel()
	names := Names{{Name: "plant", Principal: "p"}}
	site := &protocol.Principal{Kind: protocol.KindAgent, ID: "p", Space: "default", Roles: []string{RoleSite}}
	person := &protocol.Principal{Kind: protocol.KindOperator, ID: "ann", Space: "default", Roles: []string{"operator"}}
	for _, c := range []struct {
		who *protocol.Principal
		id  protocol.SkillID
		may bool
	}{{site, "plant.lamp", true}, {site, "lamp", false}, {site, "ship.lamp", false}, {person, "plant.lamp", true}, {person, "lamp", true}} {
		if err := names.CheckSkill("default", c.id, c.who); (err == nil) != c.may || err != nil && protocol.CodeOf(err) != protocol.PermissionDenied {
			t.Errorf("%s binds %s: %v", c.who.ID, c.id, err)
		}
	}
}

func TestNamesBelongToTheirSites(t *testing.T) {
	t.Parallel()
	names := Names{{Name: "plant", Principal: "p"}, {Name: "ship", Principal: "s", Space: "red"}}
	agent := func(id string, space protocol.SpaceID, roles ...string) *protocol.Principal {
		return &protocol.Principal{Kind: protocol.KindAgent, ID: id, Space: space, Roles: roles}
	}
	person := &protocol.Principal{Kind: protocol.KindOperator, ID: "p", Space: "default", Roles: []string{"administrator"}}
	for _, c := range []struct {
		space protocol.SpaceID
		id    string
		who   *protocol.Principal
		may   bool
	}{
		{"default", "plant.lamp", agent("p", "default", RoleSite), true},
		{"default", "plant.lamp", agent("x", "default"), false},
		{"default", "plant.lamp", person, false},
		{"default", "lamp", person, true},
		{"default", "plant", person, true},
		{"red", "plant.lamp", agent("x", "red"), true}, // the site is in another space
		{"red", "ship.lamp", agent("s", "red", RoleSite), true},
		{"default", "lamp", agent("p", "default"), false},
		{"default", "ship.lamp", agent("p", "default"), false},
		{"default", "hall.lamp", agent("nobody", "default", RoleSite), false},
	} {
		if err := names.Check(c.space, c.id, c.who); (err == nil) != c.may || err != nil && protocol.CodeOf(err) != protocol.PermissionDenied {
			t.Errorf("%s registers %s/%s: %v", c.who.ID, c.space, c.id, err)
		}
	}
}

func TestFilesOfASiteAreItsOwn(t *testing.T) {
	t.Parallel()
	names := Names{{Name: "plant", Principal: "p", Files: 1000}, {Name: "hall", Principal: "h"}, {Name: "ship", Principal: "s", Space: "red", Files: 1}}
	agent := func(id string, space protocol.SpaceID, roles ...string) *protocol.Principal {
		return &protocol.Principal{Kind: protocol.KindAgent, ID: id, Space: space, Roles: roles}
	}
	admin := &protocol.Principal{Kind: protocol.KindOperator, ID: "p", Space: "default", Roles: []string{"administrator"}}
	for _, c := range []struct {
		who         *protocol.Principal
		group       string
		read, write bool
	}{
		{agent("p", "default", RoleSite), "plant.pictures", true, true},
		{agent("p", "default", RoleSite), "plant.hall:all", true, true},
		{agent("p", "default", RoleSite), "pictures", false, false},
		{agent("p", "default", RoleSite), "plant", false, false},
		{agent("p", "default", RoleSite), "cap", false, false},
		{agent("p", "default", RoleSite), "hall.pictures", false, false},
		{agent("p", "default"), "pictures", false, false}, // with whatever role
		{agent("p", "red", RoleSite), "plant.pictures", false, false},
		{agent("h", "default", RoleSite), "hall.pictures", false, false}, // without room
		{agent("nobody", "default", RoleSite), "nobody.pictures", false, false},
		{agent("x", "default", "end_agent"), "plant.pictures", true, false},
		{agent("x", "default", "end_agent"), "plant.hall:all", true, false},
		{agent("x", "default", "end_agent"), "pictures", true, true},
		{agent("x", "default", "end_agent"), "ship.pictures", true, true}, // the site is in another space
		{admin, "plant.pictures", true, false},
		{admin, "pictures", true, true},
	} {
		for write, may := range map[bool]bool{false: c.read, true: c.write} {
			if err := names.CheckFiles(c.who, c.group, write); (err == nil) != may || err != nil && protocol.CodeOf(err) != protocol.PermissionDenied {
				t.Errorf("%s/%s, to write %t, by %s %v: %v", c.who.Space, c.group, write, c.who.ID, c.who.Roles, err)
			}
		}
	}
	if name, bytes := names.Room("default", "plant.x"); name != "the site plant" || bytes != 1000 {
		t.Errorf("the room is %d of %q", bytes, name)
	}
	if name, _ := names.Room("red", "plant.x"); name != "" {
		t.Errorf("a group of another space is in the room of %q", name)
	}
}

func TestPatternsChooseGroupsOfFiles(t *testing.T) {
	t.Parallel()
	j := Join{Files: []string{"pictures", "line-*:all", "ca*"}}
	for group, want := range map[string]bool{"pictures": true, "line-1:all": true, "line-1:some": false, "cap": false, "cat": true, "x": false} {
		if got := j.follows(group); got != want {
			t.Errorf("%s follows: %t", group, got)
		}
	}
	if new(Join).follows("pictures") {
		t.Error("files follow without a pattern")
	}
}
