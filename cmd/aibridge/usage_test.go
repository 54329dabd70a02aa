package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/protocol"
)

func TestWrongUseIsExplained(t *testing.T) {
	for line, want := range map[string]string{
		"srve":                                "did you mean serve?",
		"agent nd":                            "did you mean end?",
		"agent foo":                           `aibridge agent has no command "foo"`,
		"key create":                          "PRINCIPAL is missing",
		"key create a b":                      `"b" is more than aibridge key create takes`,
		"approvals decide":                    "APPROVAL_ID and approve|deny are missing",
		"vfs get":                             "GROUP/PATH is missing",
		"vfs get a/b c d":                     `"d" is more`,
		"sessions list x":                     `takes no "x"`,
		"describe a b":                        `"b" is more`,
		"call":                                "which command?",
		"call skill.discover --foo":           "unknown flag: --foo",
		"call skill.discover --timeout soon":  "--timeout",
		"call skill.discover --url foo":       "--url: must be a URL such as mqtt://127.0.0.1:1883",
		"call skill.discover --url ftp://a:1": "--url: scheme must be",
	} {
		cmd := root()
		cmd.SetArgs(strings.Fields(line))
		cmd.SetContext(t.Context())
		failed, err := cmd.ExecuteC()
		var out bytes.Buffer
		printError(&out, failed, err)
		if exitCode(err) != exitUsage || !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "usage: aibridge") {
			t.Errorf("%s: %d %s, want %q", line, exitCode(err), out.String(), want)
		}
	}
}

func TestACommandThatLeadsToOthersShowsThem(t *testing.T) {
	for line, want := range map[string]string{"": "Commands:", "agent": "Available Commands", "cert": "Available Commands"} {
		cmd := root()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(strings.Fields(line))
		if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%q: %v %s", line, err, out.String())
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"a name that is near":     {protocol.Errorf(protocol.UnknownCommand, "unknown command %q", "a.b").With("did_you_mean", "a.c"), "aibridge: 1002: unknown command \"a.b\"\n  did you mean a.c?\n"},
		"what was said already":   {protocol.InvalidParam("limit", "must be 1"), "aibridge: 1001: limit: must be 1\n"},
		"what else is wrong":      {protocol.InvalidParam("a", "is missing").With("problems", []any{map[string]any{"param_name": "a", "reason": "is missing"}, map[string]any{"param_name": "b", "reason": "is missing"}}), "aibridge: 1001: a: is missing\n  b: is missing\n"},
		"what is known besides":   {protocol.Errorf(protocol.Busy, "busy").With("retry_after_ms", 5), "aibridge: 4008: busy\n  {\"retry_after_ms\":5}\n"},
		"a hint":                  {hinted{errors.New("no"), "try yes"}, "aibridge: no\n  try yes\n"},
		"words of a device":       {protocol.Errorf(protocol.TargetUnavailable, "\x1b[2Jall is well\r\nreally"), "aibridge: 4006:  [2Jall is well \nreally\n"},
		"nothing but the message": {context.Canceled, "aibridge: context canceled\n"},
	} {
		var out bytes.Buffer
		printError(&out, &cobra.Command{Use: "x"}, test.err)
		if out.String() != test.want {
			t.Errorf("%s: got %q, want %q", name, out.String(), test.want)
		}
	}
}

func TestAMissingBridgeIsNotAnotherOne(t *testing.T) {
	t.Setenv("AIBRIDGE_DATA", "")
	for _, line := range []string{"call agent.list", "health", "vfs ls x"} {
		cmd := root()
		cmd.SetArgs(append(strings.Fields(line), "--data", t.TempDir()))
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no bridge has been started with the data folder") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestAWebSocketListenerHasMQTTAtItsPath(t *testing.T) {
	for address, want := range map[string]string{
		"ws://h:1": "ws://h:1/mqtt", "wss://h": "wss://h/mqtt", "ws://h/x": "ws://h/x", "mqtt://h:1": "mqtt://h:1", "h": "h",
	} {
		if got := webSocketPath(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestAnObjectKeepsItsOrderWithoutAField(t *testing.T) {
	object, ok := parseOrdered([]byte(`{"b":1,"key":"s","a":{"z":1,"y":[2]}}`)).(*orderedObject)
	if !ok {
		t.Fatal("it is no object")
	}
	for name, want := range map[string]string{"key": `{"b":1,"a":{"z":1,"y":[2]}}`, "none": `{"b":1,"key":"s","a":{"z":1,"y":[2]}}`} {
		if got, err := object.without(name); err != nil || string(got) != want {
			t.Errorf("without %s: %s %v", name, got, err)
		}
	}
}
