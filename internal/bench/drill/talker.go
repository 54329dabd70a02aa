package drill

import (
	"archive/zip"
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// The streams of the works of models.
const (
	streamLoop     = "loop"     // a question whose answer takes several calls of tools
	streamApproval = "approval" // a call of a tool that waits for an approval
	streamRun      = "run"      // of a workflow
)

// A talker gives works to models, one after the other: loops of tools, calls that are
// approved at another bridge, and workflows.
type talker struct {
	*caller
	count int
}

// run has models work while there is load, until ctx ends.
func (t *talker) run(ctx context.Context) {
	works := []func(context.Context, script){t.loop, t.approval, t.workflow}
	streams := []string{streamLoop, streamApproval, streamRun}
	for turn := t.home; t.load.wait(ctx, callEvery); turn++ {
		t.load.busy.Add(1)
		t.count++
		stream := streams[turn%len(works)]
		tool := "do"
		steps := len(workflowNodes)
		if stream == streamApproval {
			tool, steps = "risk", 1
		}
		s := script{id: fmt.Sprintf("%s-%s-%d", t.name, stream, t.count), steps: steps, tool: fmt.Sprintf("drill-%d_%s", t.home, tool)}
		t.record.add(Event{Kind: Asked, Client: t.name, Stream: stream, ID: s.id, Number: s.steps})
		works[turn%len(works)](ctx, s)
		t.load.busy.Add(-1)
	}
}

// loop asks a model, which uses tools until it answers.
func (t *talker) loop(ctx context.Context, s script) {
	_, code, node, ok := t.command(ctx, s.id, "llm.query", map[string]any{"query": s.String(), "tools": []string{t.tools()}})
	if ok {
		t.record.add(Event{Kind: Answered, Client: t.name, Node: node, Stream: streamLoop, ID: s.id, Code: code})
	}
}

// A waiting is the part of an answer about a call that waits for an approval.
type waiting struct {
	Task     string `json:"task_id"`
	Approval string `json:"approval_id"`
}

// approval asks a model whose call needs an approval, and approves it a moment later at
// the next bridge.
func (t *talker) approval(ctx context.Context, s script) {
	result, code, node, ok := t.command(ctx, s.id, "llm.query", map[string]any{"query": s.String(), "tools": []string{t.tools()}, "approval_wait_ms": 0})
	if !ok {
		return
	}
	var answer struct {
		Waiting waiting `json:"waiting"`
	}
	_ = json.Unmarshal(result, &answer) // without one nothing waits
	waits := answer.Waiting
	t.record.add(Event{Kind: Answered, Client: t.name, Node: node, Stream: streamApproval, ID: s.id, Code: code, Present: waits.Task != ""})
	if waits.Task == "" {
		return
	}
	const thought = time.Second
	pause(ctx, thought)
	t.at++
	if !t.agree(ctx, s, waits.Approval) {
		return
	}
	t.at++
	t.follow(ctx, s, streamApproval, "task.get", map[string]any{"task_id": waits.Task}, "state", stateWaiting, statePending, stateRunning)
}

const stateWaiting = "waiting"

// agree approves a call as soon as the bridge has its approval.
func (t *talker) agree(ctx context.Context, s script, approval string) bool {
	for n := 0; ctx.Err() == nil; n++ {
		result, code, node, _ := t.command(ctx, fmt.Sprintf("%s-look-%d", s.id, n), "approval.get", map[string]any{"approval_id": approval})
		var shown struct{ State, Nonce string }
		_ = json.Unmarshal(result, &shown) // without a state the request is repeated
		switch {
		case code != "" || shown.State == "":
		case shown.State != statePending:
			// There is no other decider: the call was approved, and the answer was
			// lost.
			t.record.add(Event{Kind: Decided, Client: t.name, Node: node, ID: s.id, Code: shown.State})
			return true
		default:
			params := map[string]any{"approval_id": approval, "nonce": shown.Nonce, "decision": "approve"}
			t.record.add(Event{Kind: Agreed, Client: t.name, ID: s.id})
			if _, code, node, ok := t.command(ctx, fmt.Sprintf("%s-agree-%d", s.id, n), "approval.decide", params); ok && code == "" {
				t.record.add(Event{Kind: Decided, Client: t.name, Node: node, ID: s.id})
				return true
			}
		}
		t.at++
		pause(ctx, 200*time.Millisecond)
	}
	return false
}

// workflow starts a run of several steps, and follows it at other bridges.
func (t *talker) workflow(ctx context.Context, s script) {
	result, code, node, ok := t.command(ctx, s.id, "llm.run.start", map[string]any{
		"package": workflowName, "autopilot": true, "tools": []string{t.tools()}, "variables": map[string]any{"job": s.String()},
	})
	if !ok {
		return
	}
	var started struct {
		Run string `json:"run_id"`
	}
	_ = json.Unmarshal(result, &started) // without one it was not started
	t.record.add(Event{Kind: Answered, Client: t.name, Node: node, Stream: streamRun, ID: s.id, Code: code, Present: started.Run != ""})
	if started.Run != "" {
		t.at++
		t.follow(ctx, s, streamRun, "llm.run.status", map[string]any{"run_id": started.Run}, "phase", "Running")
	}
}

// follow requests the state of a work, at one bridge after the other, until the work
// has ended. A bridge that does not know the work yet is asked again.
func (t *talker) follow(ctx context.Context, s script, stream, command string, params map[string]any, field string, underWay ...string) {
	for n := 0; ctx.Err() == nil; n++ {
		result, code, node, _ := t.command(ctx, fmt.Sprintf("%s-follow-%d", s.id, n), command, params)
		var got map[string]json.RawMessage
		var state string
		_ = json.Unmarshal(result, &got) // without a state it is asked again
		_ = json.Unmarshal(got[field], &state)
		if code == "" && state != "" && !slices.Contains(underWay, state) {
			t.record.add(Event{Kind: Done, Client: t.name, Node: node, Stream: stream, ID: s.id, Code: state})
			return
		}
		t.at++
		pause(ctx, 200*time.Millisecond)
	}
}

// tools is the pattern of the tools of a model: those of the talker's own agent.
func (t *talker) tools() string { return fmt.Sprintf("drill-%d.*", t.home) }

// command asks for a command under an id until there is an answer that stands.
func (t *talker) command(ctx context.Context, id, command string, params map[string]any) (result []byte, code, node string, ok bool) {
	request, err := protocol.NewRequest(command, params)
	if err != nil {
		return nil, err.Error(), "", false // the params are the drill's own
	}
	request.ID = id
	request.Metadata.Timeout = time.Minute
	return t.insist(ctx, request)
}

// The workflow: a step of the job in each of its nodes.
const workflowName = "drill"

var workflowNodes = []string{"first", "second", "third"}

//go:embed workflow
var workflowFiles embed.FS

// workflowPackage is the package of the workflow, a zip.
func workflowPackage() ([]byte, error) {
	files, err := fs.Sub(workflowFiles, "workflow")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	if err := errors.Join(w.AddFS(files), w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// bring imports the workflow at the first bridge that accepts it.
func (t *talker) bring(ctx context.Context) error {
	data, err := workflowPackage()
	if err != nil {
		return err
	}
	_, code, _, _ := t.command(ctx, t.name+"-import", "llm.run.import", map[string]any{"content": base64.StdEncoding.EncodeToString(data)})
	if code != "" {
		return fmt.Errorf("drill: the workflow is refused with %s", code)
	}
	return ctx.Err()
}
