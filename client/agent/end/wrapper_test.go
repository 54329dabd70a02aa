package end

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheWrapperCallsTheRightCommands runs scripts/mcp-agent.sh with a program
// in aibridge's place that prints its arguments and, for @-, its input.
func TestTheWrapperCallsTheRightCommands(t *testing.T) {
	t.Parallel()
	wrapper, err := filepath.Abs("../../../scripts/mcp-agent.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fake := filepath.Join(dir, "aibridge")
	text := "#!/bin/sh\nfor a; do printf '[%s]' \"$a\"; done\ncase \" $* \" in *' @- '*) cat ;; esac\n"
	if err := os.WriteFile(fake, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	params := filepath.Join(dir, "my params.json")
	if err := os.WriteFile(params, []byte(`{"n":1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	const invoke = "[call][--json][--timeout][5s][--][skill.invoke]"
	for name, c := range map[string]struct {
		args   []string
		input  string
		want   string
		status int
	}{
		"status":         {args: []string{"status"}, want: "[call][--json][--timeout][5s][--][agent.list]"},
		"list":           {args: []string{"list"}, want: "[call][--json][--timeout][5s][--][skill.discover]"},
		"list some":      {args: []string{"list", "a b"}, want: "[call][--json][--timeout][5s][--][skill.discover][text=a b]"},
		"find":           {args: []string{"find", "u"}, want: "[call][--json][--timeout][5s][--][skill.discover][text=u]"},
		"document":       {args: []string{"document", "u"}, want: invoke + "[skill_id=u][capability_id=skill.document]"},
		"a resource":     {args: []string{"document", "u", "resources/x"}, want: invoke + "[skill_id=u][capability_id=skill.document][params.path=resources/x]"},
		"result":         {args: []string{"result", "t1"}, want: "[call][--json][--timeout][5s][--][task.get][task_id=t1]"},
		"cancel":         {args: []string{"cancel", "t1"}, want: "[call][--json][--timeout][5s][--][task.cancel][task_id=t1]"},
		"the short form": {args: []string{"c_to_f", "u", "celsius=25"}, want: invoke + "[skill_id=u][capability_id=c_to_f][params.celsius=25]"},
		"no parameters":  {args: []string{"execute", "u", "c"}, want: invoke + "[skill_id=u][capability_id=c]"},
		"awkward words":  {args: []string{"execute", "u", "c", `a=x "y" $z`, "b=*", "c=it's=1", "d=a\nb"}, want: invoke + `[skill_id=u][capability_id=c][params.a=x "y" $z][params.b=*][params.c=it's=1][params.d=a` + "\nb]"},
		"an object":      {args: []string{"execute", "u", "c", `{"a": "*  b"}`}, want: invoke + `[skill_id=u][capability_id=c][params={"a": "*  b"}]`},
		"a file":         {args: []string{"execute", "u", "c", "@" + params}, want: invoke + `[@-][skill_id=u][capability_id=c]{"params":{"n":1}}`},
		"standard input": {args: []string{"execute-async", "u", "c", "-"}, input: `{"n":2}`, want: invoke + `[@-][skill_id=u][capability_id=c][async=true]{"params":{"n":2}}`},

		"nothing":         {status: 2},
		"an option":       {args: []string{"--frob"}, status: 2},
		"no skill":        {args: []string{"find"}, status: 2},
		"an empty skill":  {args: []string{"execute", "", "c"}, status: 2},
		"no capability":   {args: []string{"execute", "u"}, status: 2},
		"a bare word":     {args: []string{"execute", "u", "c", "x"}, status: 2},
		"no name":         {args: []string{"execute", "u", "c", "=x"}, status: 2},
		"an object more":  {args: []string{"execute", "u", "c", "{}", "a=1"}, status: 2},
		"a missing file":  {args: []string{"execute", "u", "c", "@/no/such"}, status: 2},
		"a missing skill": {args: []string{"c_to_f"}, status: 2},
	} {
		for _, shell := range []string{"sh", "bash"} {
			t.Run(name+" in "+shell, func(t *testing.T) {
				t.Parallel()
				path, err := exec.LookPath(shell)
				if err != nil {
					t.Skip(err)
				}
				cmd := exec.Command(path, append([]string{wrapper}, c.args...)...)
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "AIBRIDGE_BIN=" + fake, "AIBRIDGE_TIMEOUT=5s"}
				cmd.Stdin = strings.NewReader(c.input)
				out, err := cmd.Output()
				var exit *exec.ExitError
				switch {
				case errors.As(err, &exit) && exit.ExitCode() == c.status:
					if !strings.Contains(string(exit.Stderr), "usage: mcp-agent.sh") {
						t.Errorf("no usage: %s", exit.Stderr)
					}
				case err != nil || c.status != 0:
					t.Errorf("ended with %v, want status %d", err, c.status)
				}
				if string(out) != c.want {
					t.Errorf("got  %s\nwant %s", out, c.want)
				}
			})
		}
	}
}
