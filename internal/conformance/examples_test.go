package conformance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/protocol"
)

// An exchange is a request as the document prints it, and what the bridge
// answers.
type exchange struct {
	name   string
	path   string // of the HTTP request
	body   string
	status int
	want   string // part of the answer
	here   string // why the answer is not the document's, "" if it is
}

const commandsPath = "/api/v1/commands"

// envelope is a request with the fields that the document's examples share.
func envelope(command, params, sender string) string {
	return `{"version":"0.6.3","id":"` + command + `-1","timestamp":0,"type":"request","command":"` + command +
		`","params":` + params + `,"metadata":{"sender_id":"` + sender + `","trace_id":"trace-456"}}`
}

func southbound(operation, payload string) string {
	return `{"protocol_version":"0.6.3","command_id":"cmd-` + operation + `","timestamp":"2026-01-23T12:00:00Z","source":{"component":"Skills","id":"a2ui"},` +
		`"destination":{"component":"mcpAgent","id":"mcp-agent-1"},"operation":"` + operation + `","payload":` + payload +
		`,"metadata":{"priority":"medium","timeout":60,"retry_count":0}}`
}

// exchanges are the printed examples, in the order of the document. Only the
// timestamps are those of a device without a clock: requests that are old are
// refused, and the document was printed long ago.
var exchanges = []exchange{
	{"13.2, test case tc_001", commandsPath,
		`{"version":"0.6.3","command":"cap.declare","params":{"cap_id":"test_cap","cap_name":"Test Cap","skill_id":"test_skill"}}`,
		200, `"status":"success"`, ""},
	{"4.1, a request", commandsPath, envelope("skill.discover", `{"param1":"value1"}`, "agent-123"),
		400, `"param_name":"param1"`, "parameters that a command does not have are refused with 1001, so that a misspelt one is not lost"},
	{"7.1, a command", commandsPath, envelope("skill.discover", `{"space_id":"default"}`, "agent-123"), 200, `"skills":[`, ""},
	{"8.1, a command of one's own", commandsPath,
		`{"version":"0.6.3","command":"custom.command","params":{"custom_param1":"value1"},"extension":{"vendor":"company-x","schema_version":"1.0"}}`,
		400, `"code":"1002"`, "an agent registers the commands of its own with `command.register` first"},
	{"9.1, a batch", commandsPath + "/batch.execute",
		`{"commands":[{"command":"skill.invoke","params":{"skill_id":"skill1","capability_id":"cap1"}},{"command":"skill.invoke","params":{"skill_id":"skill2","capability_id":"cap2"}}]}`,
		200, `"failure_count":2`, ""},
	{"10.2, a scene", commandsPath,
		envelope("scene.declare", `{"scene_type":"SMART_HOME","skill_id":"skill_001","skill_role":"agent_route","is_owner_declaration":false,"cap_id":"test_cap"}`, "skill-001"),
		403, `"code":"2004"`, "the role `agent_route` always needs a certificate, as section 6 of the document says"},
	{"11.2, data of a Cap", commandsPath,
		envelope("cap.vfs.sync", `{"cap_id":"test_cap","vfs_path":"/vfs/cap/test_cap/disk/plan.json","sync_type":"REAL_TIME","content":"{}"}`, "skill-001"),
		200, `"sync_status":"`, ""},
	{"11.2, the file of the groups", commandsPath,
		strings.Replace(envelope("cap.vfs.sync", `{"cap_id":"test_cap","vfs_path":"/vfs/cap/test_cap/group.json","sync_type":"REAL_TIME","content":"{\"group_id\":\"group_smart_home_device\"}"}`, "skill-001"), `"id":"`, `"id":"group-`, 1),
		200, `the next change of the Cap replaces this content`, ""},
	{"16.3.2, files to a VFS", "/vfs/sync",
		envelope("vfs.sync.to", `{"group_name":"skill-a-group","files":[{"path":"test-data-1.json","content":"{\"name\":\"Skill A\",\"version\":\"1.0.0\"}"},{"path":"test-data-2.txt","content":"Sample text file"}]}`, "skill-a-001"),
		200, `"test-data-2.txt","status":"`, ""},
	{"16.3.3, files from a VFS", "/vfs/sync",
		envelope("vfs.sync.from", `{"group_name":"skill-a-group","files":["test-data-1.json","test-data-2.txt"]}`, "skill-a-001"),
		200, `Sample text file`, ""},
	{"16.3.3, paths from the root", "/vfs/sync",
		strings.Replace(envelope("vfs.sync.from", `{"group_name":"skill-a-group","files":["/test-data-2.txt"]}`, "skill-a-001"), `"id":"`, `"id":"root-`, 1),
		200, `Sample text file`, ""},
	{"16.4.1, all files", "/vfs/sync",
		envelope("vfs.sync", `{"action":"sync-all","group_name":"skill-a-group","sync_direction":"both"}`, "route-agent-001"),
		200, `"status":"success"`, ""},
	{"17.4.1, a query", "/api/mcp-agent/llm/query",
		southbound("execute-llm-query", `{"skill_id":"a2ui","query":"How is a form made better?","parameters":{"context":"The principle of four parts"}}`),
		503, `"code":"1009"`, ""}, // no model is configured here
	{"17.4.2, the status of models", "/api/mcp-agent/llm/status", southbound("get-llm-status", `{}`), 200, `"active_requests":`, ""},
	{"17.2.2.2, the models", "/api/mcp-agent/llm/models", southbound("list-llm-models", `{}`), 200, `"models":[`, ""},
}

// TestThePrintedExamplesWork sends every example of the document, one after
// the other.
func TestThePrintedExamplesWork(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	for _, e := range exchanges {
		status, answer := post(t, n, e.path, e.body)
		if status != e.status || !strings.Contains(string(answer), e.want) {
			t.Errorf("%s: %d %s, want %d %s", e.name, status, answer, e.status, e.want)
		}
	}
}

// TestTheTestCaseNeedsNoIDWhereTheDoorMatchesAnswers sends the document's test
// case as printed over MQTT: with Correlation Data it is answered, without it
// nobody could tell what the answer belongs to.
func TestTheTestCaseNeedsNoIDWhereTheDoorMatchesAnswers(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	caller := n.Caller(t, "tc")
	caller.Send(t, "aibridge/bridge/request", exchanges[0].body)
	if got := caller.Answer(t); got.Err == nil || got.Err.Code != protocol.MalformedEnvelope || got.Err.Details["param_name"] != "id" {
		t.Errorf("without Correlation Data: %+v", got)
	}
	caller.SendCorrelated(t, "aibridge/bridge/request", exchanges[0].body, "tc_001")
	if got := caller.Answer(t); got.Err != nil || got.ID == "" || len(got.Metadata.Warnings) < 3 {
		t.Errorf("with Correlation Data: %+v", got)
	}
}

// TestEnvelopesAreTakenAtTheRootOfTheWebSocketPort connects as the document
// has it, without a path.
func TestEnvelopesAreTakenAtTheRootOfTheWebSocketPort(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	c, _, err := websocket.Dial(t.Context(), "ws://"+n.WS+"/", &websocket.DialOptions{HTTPClient: bridgetest.HTTPClient(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(envelope("skill.discover", `{}`, "agent_123"))); err != nil {
		t.Fatal(err)
	}
	if _, answer, err := c.Read(t.Context()); err != nil || !strings.Contains(string(answer), `"status":"success"`) {
		t.Errorf("got %s, %v", answer, err)
	}
}

// TestAnAnswerHasTheFieldsOfTheDocument holds a success and a failure against
// the tables of sections 4 and 7.
func TestAnAnswerHasTheFieldsOfTheDocument(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t)
	for _, c := range []struct{ params, status string }{{`{}`, "success"}, {`{"capability":7}`, "failed"}} {
		_, answer := post(t, n, commandsPath, envelope("skill.discover", c.params, "agent_123"))
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(answer, &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"version", "id", "timestamp", "type", "status", "result", "error", "metadata"} {
			if _, ok := fields[name]; !ok {
				t.Errorf("%s: no %s in %s", c.status, name, answer)
			}
		}
		if string(fields["version"]) != `"0.6.3"` || string(fields["id"]) != `"skill.discover-1"` || string(fields["type"]) != `"response"` || string(fields["status"]) != `"`+c.status+`"` {
			t.Errorf("%s: %s", c.status, answer)
		}
		var metadata struct {
			Sender string `json:"sender_id"`
			Trace  string `json:"trace_id"`
		}
		if err := json.Unmarshal(fields["metadata"], &metadata); err != nil || metadata.Sender == "" || metadata.Trace != "trace-456" {
			t.Errorf("%s: metadata %s, %v", c.status, fields["metadata"], err)
		}
		var failure *struct {
			Code, Message string
			Details       map[string]any
		}
		if err := json.Unmarshal(fields["error"], &failure); err != nil || (failure != nil) != (c.status == "failed") {
			t.Errorf("%s: error %s, %v", c.status, fields["error"], err)
		}
		if failure != nil && (len(failure.Code) != 4 || failure.Message == "" || failure.Details["param_name"] != "capability" || failure.Details["reason"] == nil) {
			t.Errorf("error %s", fields["error"])
		}
	}
}
