package commands_test

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
)

func TestWriteMarkdown(t *testing.T) {
	t.Parallel()
	set, err := commands.NewSet(append(commands.Builtin(), declared(func(s *commands.Spec) { s.Async, s.Aliases = true, []string{"lamp.toggle"} }))...)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := commands.WriteMarkdown(&b, set); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"- **command**: [command.register](#commandregister) [command.unregister](#commandunregister)\n- **lamp**: [lamp.switch](#lampswitch)\n",
		"\n## lamp.switch\n\nSwitch a lamp.\n\nEffect: read. Permission: `lamp:switch`. Old name: `lamp.toggle`. Can run as a task.\n",
		"| `commands` | list of objects, 1 to 100 items | *required* command to run; batches cannot be nested |\n",
		"| `commands[].params` | object | its parameters |\n",
		"| `mode` | string, one of \"sequential\", \"parallel\", default \"sequential\" | one after the other, or side by side |\n",
		"| `commands[].effect` | string, one of \"read\", \"write\", \"act\", default \"act\" | effect of running it on the world |\n",
		"\nErrors: 3001 (not found).\n\n```json\n{\n  \"text\": \"on\"\n}\n```\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}
