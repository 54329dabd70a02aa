package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/spf13/pflag"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/protocol"
)

// talkOverEveryTransport asks the same over HTTP, WebSocket and MQTT.
func talkOverEveryTransport(t *testing.T) {
	k := begin(t)
	question := envelope("skill.discover", `{}`, "agent-1")
	k.sends(question, `"status":"success"`, `"skills":[]`)

	c, _, err := websocket.Dial(t.Context(), "ws://"+k.WS+"/ws", &websocket.DialOptions{HTTPClient: bridgetest.HTTPClient(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(question)); err != nil {
		t.Fatal(err)
	}
	if _, answer, err := c.Read(t.Context()); err != nil || !bytes.Contains(answer, []byte(`"skills":[]`)) {
		t.Errorf("WebSocket: %s, %v", answer, err)
	}
	if got := k.Caller(t, "agent-1").Ask(t, question); got.Err != nil || !bytes.Contains(got.Result, []byte(`"skills":[]`)) {
		t.Errorf("MQTT: %+v", got)
	}
}

// talkInEnvelopes tries every field of a request, over MQTT 3.1.1's rules:
// nothing tells which request an answer belongs to but the id.
func talkInEnvelopes(t *testing.T) {
	k := begin(t)
	whole := func() map[string]string {
		return map[string]string{
			"version": `"0.6.3"`, "id": `"1"`, "timestamp": fmt.Sprint(time.Now().UnixMilli()), "type": `"request"`, "command": `"skill.discover"`, "params": `{}`,
			"metadata": `{"sender_id":"agent-1","trace_id":"trace-1","priority":"high","timeout":30000}`,
		}
	}
	caller := k.Caller(t, "agent-1")
	n := 0
	ask := func(field, value string) *protocol.Response {
		fields := whole()
		n++
		fields["id"] = fmt.Sprintf(`"%d"`, n)
		if fields[field] = value; value == "" {
			delete(fields, field)
		}
		var pairs []string
		for name, value := range fields {
			pairs = append(pairs, `"`+name+`":`+value)
		}
		caller.Send(t, "aibridge/bridge/request", "{"+strings.Join(pairs, ",")+"}")
		return caller.Answer(t)
	}
	taken := map[string][]string{
		"id":        {`"123e4567-e89b-12d3-a456-426614174000"`, word(64), `"uuid-1234-5678-90ab-cdef"`},
		"timestamp": {"0"},
		"metadata": {
			`{"sender_id":"agent-1","priority":"low"}`, `{"sender_id":"agent-1","priority":"medium","timeout":1000}`,
			`{"sender_id":"agent-1","trace_id":"456e7890-e12b-34d5-a678-901234567890"}`, `{"sender_id":"agent-1","trace_id":` + word(128) + `}`,
			`{"sender_id":` + word(64) + `}`,
		},
	}
	for field, values := range taken {
		for _, value := range values {
			if got := ask(field, value); got.Err != nil {
				t.Errorf("%s %s: %+v", field, value, got.Err)
			}
		}
	}
	refused := map[string][]string{
		"version": {"", "7"}, "id": {"", "7", `""`, word(65)}, "timestamp": {"", `"now"`, "1.5", fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli())},
		"type": {"", `"question"`, "7"}, "command": {"", "7", word(129)}, "params": {`[]`, `"a"`}, "metadata": {
			`[]`, `{"sender_id":7}`, `{"sender_id":""}`, `{"sender_id":` + word(65) + `}`, `{"trace_id":` + word(129) + `}`,
			`{"priority":"urgent"}`, `{"timeout":"soon"}`, `{"timeout":0}`, `{"timeout":600001}`,
		},
	}
	for field, values := range refused {
		for _, value := range values {
			if got := ask(field, value); got.Err == nil || got.Err.Code[0] != '1' {
				t.Errorf("%s %s is taken: %+v", field, value, got)
			}
		}
	}
	for _, field := range []string{"params", "metadata"} { // required, and an older form without
		if got := ask(field, ""); got.Err != nil || len(got.Metadata.Warnings) == 0 {
			t.Errorf("without %s: %+v, want a warning", field, got)
		}
	}
}

// talkInOtherVersions sends older and newer versions, and forms that will go.
func talkInOtherVersions(t *testing.T) {
	k := begin(t)
	n := 0
	asked := func(version, command string) string {
		n++
		return fmt.Sprintf(`{"version":%q,"id":"%d","timestamp":0,"type":"request","command":%q,"params":{},"metadata":{}}`, version, n, command)
	}
	k.sends(asked("0.6.3", "skill.discover"), `"status":"success"`, `"warnings":[]`)
	for _, older := range []string{"0.6.0", "0.6.1", "0.6.2"} {
		k.sends(asked(older, "skill.discover"), `"status":"success"`, older)
	}
	k.sends(asked("0.6.9", "skill.discover"), `"status":"success"`)
	for _, other := range []string{"0.7.0", "1.0.0", "0.5.9"} {
		k.sends(asked(other, "skill.discover"), `"code":"1003"`, `"supported":[`)
	}
	k.sends(`{"version":"0.6.3","id":"old","timestamp":0,"type":"request","command":"skill.call","params":{"skill_id":"a","capability_id":"b"},"metadata":{}}`,
		`skill.call`, `"warnings":["`)
}

// talkAboutRights shows the order in which a command is judged: it is read,
// then its right is checked, then it runs.
func talkAboutRights(t *testing.T) {
	k := begin(t)
	key := k.key("watcher", "observer")
	asks := func(command, params, code string) {
		t.Helper()
		status, answer := request(t, k.Node, http.MethodPost, commandsPath+"/"+command, params, key)
		if code == "" && status != http.StatusOK || code != "" && !bytes.Contains(answer, []byte(`"code":"`+code+`"`)) {
			t.Errorf("%s %s: %d %s, want %q", command, params, status, answer, code)
		}
	}
	asks("resource.register", `{"resource":`, "1000")                                                      // it is not read
	asks("resource.unregister.it", `{}`, "1002")                                                           // it is no command
	asks("resource.register", `{"resource":{"resource_id":"room-1","name":"Room","type":"room"}}`, "2003") // it is not allowed
	asks("resource.list", `{}`, "")                                                                        // it runs
	k.does("resource.list", `{}`, `"resources":[]`)                                                        // and what was not allowed did not
}

// talkAboutCommandsOfOnesOwn registers a command of a device and calls it.
func talkAboutCommandsOfOnesOwn(t *testing.T) {
	k := begin(t)
	device := k.Device(t, "custom-1", "custom-skill", `["do"]`)
	k.does("command.register", `{"agent_id":"custom-1","namespace":"custom.*","commands":[{"name":"custom.command","summary":"Do something",`+
		`"params_schema":{"type":"object","properties":{"custom_param1":{"type":"string"}}}}]}`, `"custom.command"`)
	caller := k.Caller(t, "caller")
	caller.Send(t, "aibridge/bridge/request", `{"version":"0.6.3","id":"own-1","timestamp":0,"type":"request","command":"custom.command","params":{"custom_param1":"value1"},`+
		`"extension":{"vendor":"company-x","schema_version":"1.0"},"metadata":{}}`)
	call := device.Invocation(t)
	if call.Command != "custom.command" || !bytes.Contains(call.Params, []byte(`"value1"`)) || !bytes.Contains(call.Extension, []byte(`"company-x"`)) {
		t.Errorf("the device got %+v", call)
	}
	device.Reply(t, "custom-1", call, map[string]any{"done": true})
	if got := caller.Answer(t); got.Err != nil || !bytes.Contains(got.Result, []byte(`"done":true`)) {
		t.Errorf("the caller got %+v", got)
	}
}

// talkInBatches has two commands done by one request.
func talkInBatches(t *testing.T) {
	k := begin(t)
	k.does("batch.execute", `{"commands":[{"command":"resource.register","params":{"resource":{"resource_id":"room-1","name":"Room","type":"room"}}},`+
		`{"command":"resource.get","params":{"resource_id":"room-1"}}]}`, `"failure_count":0`, `"success_count":2`, `"name":"Room"`)
}

// talkAboutPorts holds the ports a bridge has by itself.
func talkAboutPorts(t *testing.T) {
	c := app.DefaultConfig()
	for address, port := range map[string]string{c.HTTP: "9010", c.WS: "9011", c.MQTT.Address: "1883"} {
		if !strings.HasSuffix(address, ":"+port) {
			t.Errorf("the address %s has not port %s", address, port)
		}
	}
}

// talkAboutTheLog configures its level and form.
func talkAboutTheLog(t *testing.T) {
	for setting, values := range map[string][]string{"log-level": {"debug", "error"}, "log-format": {"text", "json"}} {
		for _, value := range values {
			c, err := configured(t, "--"+setting, value)
			if err != nil || c.Log.Level != value && c.Log.Format != value {
				t.Errorf("%s %s: %+v, %v", setting, value, c.Log, err)
			}
		}
		if _, err := configured(t, "--"+setting, "loud"); err == nil {
			t.Errorf("%s loud is taken", setting)
		}
	}
}

func configured(t *testing.T, args ...string) (app.Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return app.LoadConfig(fs)
}
