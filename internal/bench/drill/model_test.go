package drill

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/run/pack"
)

// TestAModelGoesThroughItsSteps shows a model conversations, and looks at what it
// asks for next.
func TestAModelGoesThroughItsSteps(t *testing.T) {
	s := script{"talker-0-loop-1", 2, "drill-0_do"}
	say := func(role, text string) chatMessage {
		content, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return chatMessage{Role: role, Content: content}
	}
	// used is a call of a tool and what came of it.
	used := func(name, arguments, result string) []chatMessage {
		answer := say("tool", result)
		answer.ToolCall = name + arguments
		return []chatMessage{{Role: "assistant", ToolCalls: []chatCall{{ID: name + arguments, Function: chatFunction{name, arguments}}}}, answer}
	}
	step := func(number int, result string) []chatMessage {
		return used(s.tool, s.run(stepOf(s.id, number)).Arguments, result)
	}
	ran := func(number int) []chatMessage { return step(number, s.run(stepOf(s.id, number)).Arguments) }
	job := say("user", s.String())
	node := func(name string) chatMessage {
		return say("user", "NODE_BRIEF\n- currentNodeId: "+name+"\n- stepFile: x")
	}
	state := used("fs_read", `{"path":"@state/workflow.md"}`, "variables:\n  job: "+s.String()+"\n")
	patched := used("fs_apply_patch", "{}", "ok")
	for name, test := range map[string]struct {
		messages [][]chatMessage
		call     string // what it is called with has this
		heard    []string
	}{
		"nothing to do":             {[][]chatMessage{{say("user", "Hello")}}, "", nil},
		"the first step":            {[][]chatMessage{{job}}, "step-1", nil},
		"the second step":           {[][]chatMessage{{job}, ran(1)}, "step-2", []string{""}},
		"a step that is unknown":    {[][]chatMessage{{job}, step(1, `{"error":{"code":"4012"}}`)}, "step-2", []string{"4012"}},
		"a step without a word":     {[][]chatMessage{{job}, step(1, "TOOL_OUTCOME_UNKNOWN: look")}, "step-2", []string{"4012"}},
		"a step that was refused":   {[][]chatMessage{{job}, step(1, "3005: the agent is offline")}, "step-2", []string{"3005"}},
		"all steps":                 {[][]chatMessage{{job}, ran(1), ran(2)}, "", []string{"", ""}},
		"a node without a job":      {[][]chatMessage{{node("first")}}, "@state/workflow.md", nil},
		"a node":                    {[][]chatMessage{{node("first")}, state}, "step-1", nil},
		"a node that is done":       {[][]chatMessage{{node("first")}, state, ran(1)}, `"set":"second"`, []string{""}},
		"the next node":             {[][]chatMessage{{node("first")}, state, ran(1), patched, {node("second")}}, "step-2", []string{""}},
		"the last node":             {[][]chatMessage{{node("third")}, state, ran(3)}, `"append":["third"]`, []string{""}},
		"the last node, and closed": {[][]chatMessage{{node("third")}, state, ran(3), patched}, "", []string{""}},
		"no progress":               {append([][]chatMessage{{node("first")}}, slices.Repeat([][]chatMessage{patched}, 20)...), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			seen := readConversation(slices.Concat(test.messages...))
			call, said := seen.next()
			switch {
			case call == nil && (test.call != "" || said == ""):
				t.Errorf("it says %q", said)
			case call != nil && (test.call == "" || !strings.Contains(call.Arguments, test.call)):
				t.Errorf("it calls %+v", call)
			}
			var heard []string
			for _, step := range seen.order {
				heard = append(heard, heardCode(step, seen.heard[step]))
			}
			if !slices.Equal(heard, test.heard) {
				t.Errorf("it has heard %q", heard)
			}
		})
	}
}

// TestAModelNotesWhatItHearsOnce asks a model the same twice, as a bridge does that
// takes a conversation over.
func TestAModelNotesWhatItHearsOnce(t *testing.T) {
	record := newRecorder()
	server := httptest.NewServer(newModel(record))
	defer server.Close()
	s := script{"job", 1, "drill-0_do"}
	ask := func() string {
		t.Helper()
		answer, err := http.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":[{"type":"text","text":"`+s.String()+`"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var b strings.Builder
		if err := answer.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for range 2 {
		if got := ask(); !strings.Contains(got, "job-step-1") || !strings.Contains(got, "[DONE]") {
			t.Errorf("it answers %s", got)
		}
	}
	if h := record.history(); len(h) != 1 || h[0].Kind != Wanted || h[0].ID != "job-step-1" {
		t.Errorf("it noted %v", h)
	}
}

func TestTheWorkflowHasTheNodesThatTheModelKnows(t *testing.T) {
	data, err := workflowPackage()
	if err != nil {
		t.Fatal(err)
	}
	p, err := pack.Read(data, pack.Limits{})
	if err != nil || len(p.Warnings) > 0 {
		t.Fatalf("the package: %v, %v", err, p)
	}
	var nodes []string
	for _, n := range p.Workflow(workflowName).Graph.Nodes {
		nodes = append(nodes, n.ID)
	}
	if !slices.Equal(nodes, workflowNodes) {
		t.Errorf("its nodes are %q", nodes)
	}
}
