package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

func TestWordsBecomeParameters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "params.json")
	if err := os.WriteFile(file, []byte(`{"skill_id":"from-file","params":{"a":1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	schema := json.RawMessage(`{"type":"object","properties":{"skill_id":{"type":"string"},"limit":{"type":"integer"},"params":{"type":"object"},"by":{"type":"array"}}}`)
	for name, test := range map[string]struct {
		words []string
		want  string
	}{
		"text where text is wanted":      {[]string{"skill_id=42"}, `{"skill_id":"42"}`},
		"a number where one is wanted":   {[]string{"limit=42"}, `{"limit":42}`},
		"not a number where one is":      {[]string{"limit=ten"}, `{"limit":"ten"}`},
		"JSON where nothing is said":     {[]string{"params.n=1", "params.t=true", "params.s=on", `params.o={"x":[1]}`}, `{"params":{"n":1,"o":{"x":[1]},"s":"on","t":true}}`},
		"an equals sign in the value":    {[]string{"skill_id=a=b"}, `{"skill_id":"a=b"}`},
		"a file, and words on top of it": {[]string{"@" + file, "params.b=2"}, `{"params":{"a":1,"b":2},"skill_id":"from-file"}`},
		"words where a list is wanted":   {[]string{"by=day,model"}, `{"by":["day","model"]}`},
		"a list where one is wanted":     {[]string{`by=["day"]`}, `{"by":["day"]}`},
		"standard input":                 {[]string{"@-"}, `{"from":"stdin"}`},
		"JSON, and words on top of it":   {[]string{`{"params":{"a":1}}`, "params.b=2"}, `{"params":{"a":1,"b":2}}`},
		"nothing":                        {nil, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			params, err := parseArguments(test.words, schema, strings.NewReader(`{"from":"stdin"}`))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(params)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v, want %s", got, err, test.want)
			}
		})
	}
	for _, words := range [][]string{{"word"}, {"=x"}, {`{"a":`}, {"a=1", "a.b=2"}, {"@" + file + ".missing"}} {
		if _, err := parseArguments(words, schema, strings.NewReader("")); err == nil {
			t.Errorf("%q are accepted", words)
		}
	}
}

func TestExitCodesTellTheClassOfTheError(t *testing.T) {
	for want, err := range map[int]error{
		0:  nil,
		1:  errors.New("anything"),
		2:  usageError{errors.New("wrong flag")},
		10: protocol.Errorf(protocol.InvalidParameter, "x"),
		20: fmt.Errorf("connect: %w", protocol.Errorf(protocol.NotAuthenticated, "x")),
		30: protocol.Errorf(protocol.AgentOffline, "x"),
		40: protocol.Errorf(protocol.TimedOut, "x"),
		50: protocol.Errorf(protocol.StoreUnavailable, "x"),
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

func TestResultsAreShownForPeople(t *testing.T) {
	for name, test := range map[string]struct{ result, want string }{
		"fields":               {`{"b":1,"a_id":"x","c":null}`, "b     1\na_id  x\nc     -\n"},
		"a table":              {`{"agents":[{"agent_id":"a","ok":true},{"agent_id":"bb"}],"total":2}`, "total  2\n\nAGENT_ID  OK\na         true\nbb        \n"},
		"a table alone":        {`{"agents":[{"agent_id":"a"}]}`, "AGENT_ID\na\n"},
		"two tables":           {`{"a":[{"x":1}],"b":[{"y":2}]}`, "a:\nX\n1\n\nb:\nY\n2\n"},
		"an empty list":        {`{"agents":[]}`, "agents  none\n"},
		"an empty column":      {`{"a":[{"x":1,"y":[]},{"x":2,"y":""}]}`, "X\n1\n2\n"},
		"a wide column":        {`{"a":[{"text":"` + strings.Repeat("t", 29) + `","state":"on"}]}`, "STATE  TEXT\non     " + strings.Repeat("t", 29) + "\n"},
		"a short object":       {`{"data":{"b":1,"a":[{"x":1}]}}`, "data  {\"b\":1,\"a\":[{\"x\":1}]}\n"},
		"a long object":        {`{"o":{"b":"` + strings.Repeat("b", 80) + `","in":{"c":1},"rows":[{"x":1}]},"z":1}`, "o.b   " + strings.Repeat("b", 80) + "\no.in  {\"c\":1}\nz     1\n\nX\n1\n"},
		"times":                {`{"since":null,"started_at":1795254498313}`, "since       -\nstarted_at  " + time.UnixMilli(1795254498313).Format(time.DateTime) + "\n"},
		"times as text":        {`{"ended_at":"` + time.UnixMilli(1795254498313).UTC().Format(time.RFC3339Nano) + `","started_at":"soon"}`, "ended_at    " + time.UnixMilli(1795254498313).Format(time.DateTime) + "\nstarted_at  soon\n"},
		"a wide identifier":    {`{"a":[{"task_id":"` + strings.Repeat("t", 36) + `","state":"on"}]}`, "TASK_ID                               STATE\n" + strings.Repeat("t", 36) + "  on\n"},
		"objects in a table":   {`{"skills":[{"skill_id":"s","capabilities":["on",{"name":"Set","capability_id":"set","params_schema":{}},{"x":1}]}]}`, "SKILL_ID  CAPABILITIES\ns         on,set,{\"x\":1}\n"},
		"long cells":           {`{"skills":[{"text":"` + strings.Repeat("ä", 81) + `"}]}`, "TEXT\n" + strings.Repeat("ä", 79) + "…\n"},
		"control characters":   {`{"name":"\u001b[31mred\u009b"}`, "name   [31mred \n"},
		"control in an object": {"{\"o\":{\"a\":\"\u009b\"}}", "o  {\"a\":\" \"}\n"},
		"not an object":        {`[1]`, "[\n  1\n]\n"},
	} {
		var out bytes.Buffer
		if err := writeTable(&out, json.RawMessage(test.result)); err != nil || out.String() != test.want {
			t.Errorf("%s: got %q, %v, want %q", name, out.String(), err, test.want)
		}
	}
}

// run runs the real binary against a bridge.
func run(t *testing.T, b *binary, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runIn(t, b, b.data, args...)
}

// runIn is run with another data folder.
func runIn(t *testing.T, b *binary, data string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(b.path, args...)
	cmd.Env = append(os.Environ(), "AIBRIDGE_DATA="+data)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestTheCommandLineFindsAddressesAndKeyInTheDataFolder(t *testing.T) {
	bridge := startBinary(t, t.TempDir()) // without --dev: a key is needed
	if out, stderr, code := run(t, bridge, "call", "agent.register", "agent_id=a1", "type=end_agent"); code != 0 || !strings.Contains(out, "a1") {
		t.Errorf("call: %d %s %s", code, out, stderr)
	}
	if out, stderr, code := run(t, bridge, "health"); code != 0 {
		t.Errorf("health: %d %s %s", code, out, stderr)
	}
	out, stderr, code := run(t, bridge, "call", "--json", "agent.get", "agent_id=a1")
	var agent struct {
		ID string `json:"agent_id"`
	}
	if code != 0 || json.Unmarshal([]byte(out), &agent) != nil || agent.ID != "a1" {
		t.Errorf("call --json: %d %s %s", code, out, stderr)
	}
	if _, stderr, code := run(t, bridge, "call", "agent.get", "agent_id=nobody"); code != 30 || !strings.Contains(stderr, "3001") {
		t.Errorf("not found: %d %s", code, stderr)
	}
	if err := os.Remove(filepath.Join(bridge.data, "admin.key")); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := run(t, bridge, "call", "agent.list"); code != 20 {
		t.Errorf("without the key: %d %s", code, stderr)
	}
}

// TestABackupBringsEverythingBack restores a backup that a running bridge made,
// and one of the data folder that it left.
func TestABackupBringsEverythingBack(t *testing.T) {
	bridge := startBinary(t, t.TempDir(), "--dev")
	if _, stderr, code := run(t, bridge, "call", "agent.register", "agent_id=a1", "type=end_agent"); code != 0 {
		t.Fatal(stderr)
	}
	save := func(name string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), name)
		if _, stderr, code := run(t, bridge, "backup", "--data", bridge.data, file); code != 0 {
			t.Fatalf("backup: %d %s", code, stderr)
		}
		return file
	}
	running := save("running")
	bridge.kill()
	for _, file := range []string{running, save("stopped")} {
		fresh := t.TempDir()
		if _, stderr, code := run(t, bridge, "restore", "--data", fresh, file); code != 0 {
			t.Fatalf("restore: %s", stderr)
		}
		if _, stderr, code := run(t, bridge, "restore", "--data", fresh, file); code == 0 {
			t.Errorf("a second restore over what is there: %s", stderr)
		}
		restored := startBinary(t, fresh, "--dev")
		if out, stderr, code := run(t, restored, "call", "agent.get", "agent_id=a1"); code != 0 || !strings.Contains(out, "a1") {
			t.Errorf("after the restore of %s: %d %s %s", filepath.Base(file), code, out, stderr)
		}
		restored.kill()
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	cmd := root()
	for _, sub := range cmd.Commands() {
		if sub.Short == "" {
			t.Errorf("%s has no help", sub.Name())
		}
	}
}

func TestToolsForTheStateOfferOnlyItsSettings(t *testing.T) {
	for _, cmd := range []*cobra.Command{backupCommand(), restoreCommand()} {
		if cmd.Flags().Lookup("data") == nil || cmd.Flags().Lookup("nats-url") == nil {
			t.Errorf("%s does not say where the state is", cmd.Name())
		}
		if cmd.Flags().Lookup("mqtt") != nil {
			t.Errorf("%s offers to listen", cmd.Name())
		}
	}
}

func TestACallMustEndInTime(t *testing.T) {
	for _, timeout := range []string{"0s", "-1s", "1h"} {
		cmd := callCommand()
		cmd.SetArgs([]string{"agent.list", "--timeout", timeout})
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if usage := new(usageError); !errors.As(cmd.Execute(), usage) {
			t.Errorf("--timeout %s is taken", timeout)
		}
	}
}
