package run

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant/granttest"
)

// climate is how a good model executes the sample until it asks the user.
func climate() []*chat.Answer {
	return []*chat.Answer{
		calls("fs.read", `{"path":"@pkg/steps/measure.md"}`),
		calls("thermostat-go.read", `{}`),
		calls(append([]string{"fs.write", `{"path":"@project/artifacts/climate/reading.md","content":"17.5, target 20\n"}`},
			pair(patch(`{"stepsCompleted":{"append":["measure"]},"variables":{"set":{"celsius":17.5,"target":20}},"artifacts":{"append":["artifacts/climate/reading.md"]},"currentNodeId":{"set":"judge"}}`))...)...),
		step("judge", "gather"), // which is no legal jump
		calls(patch(`{"stepsCompleted":{"append":["judge"]},"decisionLog":{"append":[{"from":"judge","to":"adjust","label":"uncomfortable","reason":"17.5 is below 19"}]},"currentNodeId":{"set":"adjust"}}`)),
		calls("ui.ask_user", `{"question":"How warm would you like it?","options":["20","21"]}`),
	}
}

// afterwards is how it goes on with the answer.
func afterwards() []*chat.Answer {
	return []*chat.Answer{
		calls("thermostat-go.set_target", `{"celsius":21}`),
		calls(append([]string{"fs.write", `{"path":"@project/artifacts/climate/change.md","content":"target 21\n"}`}, pair(patch(`{"stepsCompleted":{"append":["adjust"]},"variables":{"set":{"target":21}},"currentNodeId":{"set":"gather"}}`))...)...),
		step("gather", "report"),
		calls(append([]string{"fs.write", `{"path":"@project/artifacts/climate/report.md","content":"# Report\n"}`}, pair(patch(`{"stepsCompleted":{"append":["report"]}}`))...)...),
		says("It was 17.5 degrees, so I set the thermostat to 21."),
	}
}

func pair(a, b string) []string { return []string{a, b} }

func TestTheSampleIsExecutedToItsEnd(t *testing.T) {
	w := imported(t, script(append(climate(), afterwards()...)...))
	id := w.start(StartParams{Package: "climate-check", Project: "home", Variables: map[string]any{"room": "bedroom"}})
	asked := w.rest(id)
	if asked.Phase != WaitingUser || len(asked.Questions) != 1 || asked.Questions[0].Text != "How warm would you like it?" || asked.Node != "adjust" {
		t.Fatalf("before the question: %+v", asked)
	}
	if asked.Variables["room"] != "bedroom" || asked.Variables["celsius"] != 17.5 {
		t.Errorf("variables: %v", asked.Variables)
	}
	w.goOn(id, ptr("21 please"))
	done := w.rest(id)
	if done.Phase != Completed || done.Message != "It was 17.5 degrees, so I set the thermostat to 21." {
		t.Fatalf("at the end: %+v", done)
	}
	if want := []string{"measure", "judge", "adjust", "gather", "report"}; !slices.Equal(done.Completed, want) {
		t.Errorf("completed %v", done.Completed)
	}
	if !slices.Equal(w.device.sets, []string{`{"celsius":21}`}) {
		t.Errorf("the thermostat was set to %v", w.device.sets)
	}
	if text, err := os.ReadFile(filepath.Join(w.projects, "home", "artifacts", "climate", "report.md")); err != nil || string(text) != "# Report\n" {
		t.Errorf("the report: %q, %v", text, err)
	}
	turns := w.turns(id)
	if len(turns) != 11 || turns[0].ID != "C01" || turns[10].UIAfter.Phase != Completed || turns[5].UIAfter.Phase != WaitingUser {
		t.Errorf("%d turns", len(turns))
	}
	refused := turns[3].ToolRuns[0]
	for _, part := range []string{`"code":"E_INVALID_TRANSITION"`, `"from":"judge"`, `"to":"gather"`, `"allowedNext":[{"to":"adjust"`} {
		if !strings.Contains(string(refused.Result), part) {
			t.Errorf("the illegal jump was answered with %s, without %s", refused.Result, part)
		}
	}
	if !strings.Contains(string(turns[6].Request.Messages[len(turns[6].Request.Messages)-1]), `USER_INPUT\n- forNodeId: adjust\n21 please`) {
		t.Errorf("after the answer the model reads %s", turns[6].Request.Messages)
	}
	w.checkAudit(t, id, turns)
	golden(t, "climate.json", outline(turns))
	if _, err := w.Continue(t.Context(), callOf(alice), ContinueParams{Run: id}); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("a completed run goes on: %v", err)
	}
}

// checkAudit holds the log of a run to its turns: one line for each call,
// sizes and hashes and no contents.
func (w *world) checkAudit(t *testing.T, id string, turns []Turn) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.stateFolder(id), "logs", "execution.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	n := 0
	for _, turn := range turns {
		for _, r := range turn.ToolRuns {
			if n == len(lines) {
				t.Fatalf("only %d lines of audit", n)
			}
			var l auditLine
			if err := json.Unmarshal([]byte(lines[n]), &l); err != nil {
				t.Fatal(err)
			}
			if l.CallID != r.ToolCallID || l.Turn != turn.ID || l.ArgsBytes != len(r.Args) || l.ResultBytes != len(r.Result) || l.OK == strings.Contains(string(r.Result), `"ok":false`) {
				t.Errorf("line %d of the audit, %s, is not about %s", n, lines[n], r.ToolCallID)
			}
			n++
		}
	}
	if n != len(lines) || n != len(w.audited) {
		t.Errorf("%d calls, %d lines of audit, %d told to the bridge", n, len(lines), len(w.audited))
	}
	for _, content := range []string{"celsius", "target 20", "is below 19"} { // no bare number: seconds look like one
		if strings.Contains(string(text), content) {
			t.Errorf("the audit has contents: %s", content)
		}
	}
}

func TestPromptsAreAnchoredOnlyWhenSomethingChanges(t *testing.T) {
	var requests []string
	inner := script(append(climate(), afterwards()...)...)
	w := imported(t, func(ctx context.Context, q model.Question) (*chat.Answer, error) {
		requests = append(requests, lastRequest(q))
		return inner(ctx, q)
	})
	id := w.start(StartParams{Package: "climate-check", Project: "home", Autopilot: true})
	w.rest(id)
	w.goOn(id, ptr("21"))
	w.rest(id)
	for i, want := range []int{1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 6} {
		if got := strings.Count(requests[i], "RUN_DIRECTIVE"); got != want {
			t.Errorf("request %d has %d directives, want %d", i+1, got, want)
		}
		if got := strings.Count(requests[i], "NODE_BRIEF\n"); got != want {
			t.Errorf("request %d has %d briefs, want %d", i+1, got, want)
		}
	}
	for _, part := range []string{
		"[system] You are executed by AI Bridge", "Autopilot is on", "[system] TOOL_POLICY\n- fs: enabled (maxReadBytes=65536, maxWriteBytes=65536)\n- mcp: disabled",
		"[system] PERSONA\n- agentId: caretaker", "  - Measure before you judge",
		"[user] RUN_DIRECTIVE\n- runType: climate-check\n- intent: start\n- workflow: climate-check\n- state: @state/workflow.md\n- graph: @pkg/workflow.graph.json\n- artifactsRoot: @project/artifacts/\n- currentNodeId: measure\n- effectiveAgentId: caretaker\n- autopilot: true\n",
		"[user] NODE_BRIEF\n- currentNodeId: measure\n- stepFile: @pkg/steps/measure.md\n- outputsMap:\n  - artifacts/climate/reading.md -> @project/artifacts/climate/reading.md\n- allowedNext:\n  - judge (label=measured, default)\n",
		"[user] DATA\n- variables: {",
	} {
		if !strings.Contains(requests[0], part) {
			t.Errorf("the first request does not have %q:\n%s", part, requests[0])
		}
	}
	if !strings.Contains(requests[6], "- intent: continue\n") {
		t.Error("the user's word is no reason to continue")
	}
}

func TestAStateThatWasEditedToNonsenseStopsTheRun(t *testing.T) {
	w := imported(t, script(says("hello"), says("again")))
	id := w.start(StartParams{Package: "climate-check", Project: "p"})
	w.rest(id)
	path := filepath.Join(w.stateFolder(id), "workflow.md")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text, code := range map[string]fault.Code{
		"":                           fault.InvalidFrontmatter,
		"---\n&a [*a]\n---\n":        fault.InvalidFrontmatter,
		"---\ncurrentNodeId: x\n---": fault.SchemaValidation,
		strings.Replace(string(good), `currentNodeId: ""`, "currentNodeId: nowhere", 1): fault.SchemaValidation,
		strings.Repeat("x", maxState+1): fault.ReadLimit,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.goOn(id, nil)
		if got := w.rest(id); got.Phase != Failed || got.Code != string(code) || got.Trouble == "" {
			t.Errorf("with %.40q it is %s with %s (%s)", text, got.Phase, got.Code, got.Trouble)
		}
	}
	if err := os.WriteFile(path, []byte("\ufeff"+strings.ReplaceAll(string(good), "\n", "\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	w.goOn(id, nil)
	if got := w.rest(id); got.Phase != WaitingUser || got.Message != "again" {
		t.Errorf("with a byte order mark and CRLF it is %+v", got)
	}
}

func TestRunsStopForAReason(t *testing.T) {
	failing := func() *chat.Answer { return calls("fs.read", `{"path":"@project/none.md"}`) }
	endless := make([]*chat.Answer, 30)
	for i := range endless {
		endless[i] = calls("fs.list", fmt.Sprintf(`{"path":"@pkg/","x":%d}`, i))
	}
	refuse := func(code protocol.Code, reason chat.ErrorKind) scripted {
		return func(context.Context, model.Question) (*chat.Answer, error) {
			return nil, protocol.Errorf(code, "no").With("reason", string(reason)).With("retry_after_ms", 1)
		}
	}
	for name, test := range map[string]struct {
		model scripted
		phase Phase
		code  fault.Code
	}{
		"too many turns":            {script(endless...), Failed, fault.MaxTurns},
		"the same failure":          {script(failing(), failing(), failing(), failing()), WaitingUser, fault.LoopDetected},
		"three of them in one turn": {script(calls("fs.read", `{"path":"@x/"}`, "fs.read", `{"path": "@x/"}`, "fs.read", `{"path":"@x/"}`)), WaitingUser, fault.LoopDetected},
		"a key that is refused":     {refuse(protocol.LLMRefused, chat.AuthFailed), Failed, fault.LLMAuthFailed},
		"no answer in time":         {refuse(protocol.TimedOut, chat.TimedOut), Failed, fault.LLMTimeout},
		"too many requests":         {refuse(protocol.LLMUnavailable, chat.RateLimited), Failed, fault.LLMRateLimited},
		"a service that is broken":  {refuse(protocol.LLMUnavailable, chat.Unavailable), Failed, fault.LLMHTTPError},
		"nonsense":                  {refuse(protocol.LLMUnavailable, chat.BadResponse), Failed, fault.LLMBadResponse},
		"no model at all":           {refuse(protocol.LLMUnavailable, "unconfigured"), Failed, fault.LLMHTTPError},
		"an empty answer":           {script(says("")), Failed, fault.LLMBadResponse},
		"a panic":                   {func(context.Context, model.Question) (*chat.Answer, error) { panic("x") }, Failed, fault.Internal},
		"a word":                    {script(says("Hello")), WaitingUser, ""},
		"a question":                {script(calls("ui.ask_user", `{"question":"?"}`)), WaitingUser, ""},
		"the word complete":         {script(calls(patch(`{"variables":{"set":{"workflowStatus":"complete"}}}`)), says("done")), WaitingUser, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := imported(t, test.model)
			w.pausing = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
			got := w.rest(w.start(StartParams{Package: "climate-check", Project: "p"}))
			if got.Phase != test.phase || got.Code != string(test.code) {
				t.Errorf("%s with %s (%s), want %s with %s", got.Phase, got.Code, got.Reason, test.phase, test.code)
			}
		})
	}
}

func TestAsMuchAsTheLimitSaysIsWritten(t *testing.T) {
	content := strings.Repeat("\"quoted\"\n", DefaultMaxWrite/9+1)[:DefaultMaxWrite]
	write := func(content string) string {
		raw, err := json.Marshal(map[string]string{"path": "@state/a.txt", "content": content})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	w := newWorld(t, script(calls("fs.write", write(content), "fs.write", write(content+"x")), says("written")))
	id := w.start(StartParams{Input: ptr("write")})
	w.rest(id)
	runs := w.turns(id)[0].ToolRuns
	if !strings.Contains(string(runs[0].Result), fmt.Sprintf(`"bytesWritten":%d`, DefaultMaxWrite)) {
		t.Errorf("2 MiB are answered with %.300s", runs[0].Result)
	}
	if !strings.Contains(string(runs[1].Result), string(fault.WriteLimit)) {
		t.Errorf("a byte more is answered with %.300s", runs[1].Result)
	}
	if got, err := os.ReadFile(filepath.Join(w.stateFolder(id), "a.txt")); err != nil || string(got) != content {
		t.Errorf("%d bytes are there, %v", len(got), err)
	}
}

func TestCallsThatCannotBeMadeAreAnswered(t *testing.T) {
	w := imported(t, script(
		calls("fs.delete", `{}`, "fs.read", `{"path":`, "agent.list", `{}`, "mcp.files.read", `{}`,
			"fs.write", `{"path":"@state/logs/execution.jsonl","content":""}`, "fs.write", `{"path":"@pkg/x","content":""}`, "thermostat-go.set_target", `{}`),
		says("I see")))
	id := w.start(StartParams{Package: "climate-check", Project: "p"})
	w.rest(id)
	turn := w.turns(id)[0]
	for i, want := range []fault.Code{fault.NotAvailable, fault.ArgsInvalidJSON, fault.NotAvailable, fault.NotAvailable, fault.Sandbox, fault.Sandbox, fault.SchemaValidation} {
		if got := turn.ToolRuns[i]; !strings.Contains(string(got.Result), `"code":"`+string(want)+`"`) {
			t.Errorf("%s is answered with %s, want %s", got.ToolName, got.Result, want)
		}
	}
	w.checkAudit(t, id, w.turns(id))
	messages := w.turns(id)[1].Request.Messages
	for i, m := range messages[len(messages)-7:] {
		if !strings.Contains(string(m), fmt.Sprintf(`"tool_call_id":"call_1_%d"`, i+1)) {
			t.Errorf("the answers are not in the order of the calls: %s", m)
		}
	}
}

func TestARunIsHeldToItsQuota(t *testing.T) {
	w := newWorld(t, script(
		calls("fs.write", `{"path":"@state/a.md","content":"12345"}`, "fs.write", `{"path":"@state/b.md","content":"123456"}`),
		says("full")), func(o *Options) { o.Quota.Bytes = 10 })
	id := w.start(StartParams{Input: ptr("write")})
	w.rest(id)
	turn := w.turns(id)[0]
	if first := string(turn.ToolRuns[0].Result); !strings.Contains(first, `"ok":true`) {
		t.Errorf("within the quota: %s", first)
	}
	if second := string(turn.ToolRuns[1].Result); !strings.Contains(second, `"code":"E_WRITE_LIMIT"`) {
		t.Errorf("beyond the quota: %s", second)
	}
	w.checkAudit(t, id, w.turns(id))
}

func TestACancelledRunStopsAndCanGoOn(t *testing.T) {
	began := make(chan struct{})
	w := imported(t, func(ctx context.Context, _ model.Question) (*chat.Answer, error) {
		close(began)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	id := w.start(StartParams{Package: "climate-check", Project: "p"})
	<-began
	got, err := w.Cancel(t.Context(), callOf(alice), CancelParams{Run: id})
	if err != nil || got.Phase != Failed || got.Code != string(fault.Aborted) {
		t.Fatalf("cancelled: %+v, %v", got, err)
	}
	w.restart(script(says("again")))
	if got := w.rest(id); got.Phase != Failed {
		t.Fatalf("a cancelled run goes on by itself: %+v", got)
	}
	w.goOn(id, nil)
	if got := w.rest(id); got.Phase != WaitingUser || got.Message != "again" {
		t.Errorf("continued: %+v", got)
	}
}

func TestOthersDoNotSeeARun(t *testing.T) {
	w := imported(t, script(says("hello")))
	id := w.start(StartParams{Package: "climate-check", Project: "p"})
	w.rest(id)
	if _, err := w.Status(t.Context(), callOf(bob), StatusParams{Run: id}); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("bob: %v", err)
	}
	if got, _ := w.List(t.Context(), callOf(bob), ListParams{}); got.Total != 0 {
		t.Errorf("bob's list: %+v", got)
	}
	operator := &protocol.Principal{Kind: protocol.KindOperator, ID: "olga", Roles: []string{protocol.RoleOperator}}
	if _, err := w.Status(t.Context(), callOf(operator), StatusParams{Run: id}); err != nil {
		t.Errorf("the operator: %v", err)
	}
	if _, err := w.Continue(t.Context(), callOf(operator), ContinueParams{Run: id, Input: ptr("x")}); protocol.CodeOf(err) != protocol.PermissionDenied {
		t.Errorf("the operator goes on: %v", err)
	}
	if w.MayFollow(bob, protocol.TaskID(id)) || !w.MayFollow(alice, protocol.TaskID(id)) {
		t.Error("the wrong ones may follow")
	}
}

func TestARunEndsWithTheCredentialItWasStartedWith(t *testing.T) {
	var authority granttest.Authority
	w := imported(t, func(context.Context, model.Question) (*chat.Answer, error) {
		authority.End(alice.ID, protocol.Errorf(protocol.CredentialInvalid, "revoked"))
		return calls("fs.list", `{"path":"@pkg"}`), nil
	}, func(o *Options) { o.Grants = &authority })
	got := w.rest(w.start(StartParams{Package: "climate-check", Project: "p"}))
	if got.Phase != WaitingUser || got.Code != string(fault.Interrupted) || got.Turns != 1 {
		t.Errorf("with a revoked key: %+v", got)
	}
}
