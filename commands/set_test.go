package commands_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

func declared(edit func(*commands.Spec)) commands.Command {
	spec := commands.Spec{Name: "lamp.switch", Summary: "Switch a lamp.", Action: "lamp:switch", Errors: []protocol.Code{protocol.NotFound}, Example: `{"text":"on"}`}
	if edit != nil {
		edit(&spec)
	}
	return commands.New(spec, func(context.Context, *commands.Call, text) (text, error) { return text{}, nil })
}

func TestNewSetRefusesBadDeclarations(t *testing.T) {
	t.Parallel()
	broken := commands.New(commands.Spec{Name: "lamp.break", Summary: "x", Action: "lamp:break"},
		func(context.Context, *commands.Call, struct{ A chan int }) (text, error) { return text{}, nil })
	for name, tc := range map[string]struct {
		commands []commands.Command
		want     string
	}{
		"name without a verb":   {[]commands.Command{declared(func(s *commands.Spec) { s.Name = "lamp" })}, `"lamp" is not family.verb`},
		"name in capitals":      {[]commands.Command{declared(func(s *commands.Spec) { s.Name = "Lamp.on" })}, "is not family.verb"},
		"alias":                 {[]commands.Command{declared(func(s *commands.Spec) { s.Aliases = []string{"on"} })}, `"on" is not family.verb`},
		"no summary":            {[]commands.Command{declared(func(s *commands.Spec) { s.Summary = " " })}, "has no summary"},
		"no action":             {[]commands.Command{declared(func(s *commands.Spec) { s.Action = "" })}, "is not family:verb"},
		"unknown code":          {[]commands.Command{declared(func(s *commands.Spec) { s.Errors = []protocol.Code{"9999"} })}, `"9999" is not one`},
		"unknown effect":        {[]commands.Command{declared(func(s *commands.Spec) { s.Effect = 7 })}, "unknown effect"},
		"example not valid":     {[]commands.Command{declared(func(s *commands.Spec) { s.Example = `{"txt":"on"}` })}, `did you mean "text"?`},
		"example not JSON":      {[]commands.Command{declared(func(s *commands.Spec) { s.Example = `{` })}, "example is not valid"},
		"two of the same name":  {[]commands.Command{declared(nil), declared(nil)}, "is already that of lamp.switch"},
		"alias of another name": {[]commands.Command{declared(nil), declared(func(s *commands.Spec) { s.Name, s.Aliases = "lamp.set", []string{"lamp.switch"} })}, "is already that of"},
		"bad parameters":        {[]commands.Command{broken}, "has no json name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := commands.NewSet(tc.commands...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want something about %s", err, tc.want)
			}
		})
	}
}

func TestCheckMeaningsNamesFieldsWithoutOne(t *testing.T) {
	t.Parallel()
	type lamp struct {
		Text  string `json:"text,omitempty" doc:"for people"`
		Parts []struct {
			Name string `json:"name"`
		} `json:"parts,omitempty" doc:"its parts"`
	}
	spec := commands.Spec{Name: "lamp.switch", Summary: "Switch a lamp.", Action: "lamp:switch"}
	set, err := commands.NewSet(commands.New(spec, func(context.Context, *commands.Call, lamp) (struct{}, error) { return struct{}{}, nil }))
	if err != nil {
		t.Fatal(err)
	}
	if err := set.CheckMeanings(); err == nil || !strings.Contains(err.Error(), "the field parts[].name has no meaning") || strings.Contains(err.Error(), "field text") {
		t.Errorf("got %v", err)
	}
}

func TestSetFindsByNameAndAlias(t *testing.T) {
	t.Parallel()
	set, err := commands.NewSet(declared(func(s *commands.Spec) { s.Aliases = []string{"lamp.toggle"} }),
		declared(func(s *commands.Spec) { s.Name = "aaa.first" }))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lamp.switch", "lamp.toggle"} {
		if c, ok := set.Find(name); !ok || c.Name != "lamp.switch" {
			t.Errorf("%s: got %v", name, c)
		}
	}
	var names []string
	for c := range set.All() {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "aaa.first lamp.switch" || set.Len() != 2 {
		t.Errorf("all are %s", got)
	}
	if near, _ := set.Nearest("lamp.togle"); near != "lamp.toggle" {
		t.Errorf("nearest is %q", near)
	}
}

func TestAsyncIsPartOfTheSchema(t *testing.T) {
	t.Parallel()
	c := declared(func(s *commands.Spec) { s.Async, s.Example = true, `{"text":"on","async":true}` })
	if _, err := commands.NewSet(c); err != nil {
		t.Error(err)
	}
	if s := string(c.ParamsSchema()); !strings.Contains(s, `"async":{"type":"boolean","description":`) {
		t.Errorf("schema is %s", s)
	}
}
