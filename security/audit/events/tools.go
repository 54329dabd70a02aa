package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/aibridge/aibridge/llm/run"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// ArgumentsPurpose is the purpose for which the arguments of tools are sealed.
const ArgumentsPurpose = "audit/arguments"

// A Sealer seals values for a purpose.
type Sealer interface {
	Seal(plain []byte, purpose string) ([]byte, error)
}

// A ToolTrail records calls of tools, many of which end at a time.
type ToolTrail interface {
	audit.Recorder
	RecordTogether(ctx context.Context, e audit.Entry)
}

// Tools records calls of tools, including refused ones and calls of unknown tools.
type Tools struct {
	Trail ToolTrail
	// Arguments says how arguments are recorded: [audit.ArgumentsNone],
	// [audit.ArgumentsShown], or else sealed.
	Arguments string
	Sealer    Sealer
	Log       *slog.Logger
}

// Called records a call by a model or by hand.
func (t Tools) Called(ctx context.Context, env tools.Environment, r *tools.Result) {
	entry := audit.Entry{
		Event: "tool.call", Code: audit.OK, Action: "tool:run", Resource: "tool/" + r.Name, TraceID: env.TraceID, Door: tools.Door,
		Details: map[string]string{"call_id": r.CallID, "status": string(r.Status)},
	}
	switch {
	case r.Err != nil:
		entry.Code = string(protocol.CodeOf(r.Err))
	case r.Status != tools.Success:
		entry.Code = string(protocol.Internal)
	}
	if env.Session != "" {
		entry.Details["session"] = env.Session
	}
	if env.ByHand {
		entry.Details["by"] = "hand"
	}
	t.arguments(&entry, r.Arguments)
	t.Trail.RecordTogether(ctx, entry.By(env.Principal))
}

// CalledByRun records a call by a workflow.
func (t Tools) CalledByRun(c run.Audited) {
	entry := audit.Entry{
		Time: c.At, Event: "llm.run.call", Code: audit.OK, Action: "llm:run", Resource: "run/" + c.Run, TraceID: c.TraceID, Door: tools.Door,
		Details: map[string]string{"turn": c.Turn, "call_id": c.CallID, "tool": c.Tool, "args_sha256": c.Args, "result_sha256": c.Result},
	}
	if c.Code != "" {
		entry.Code, entry.Reason = string(c.Code), string(c.Fault)
	}
	if c.Node != "" {
		entry.Details["node"] = c.Node
	}
	if c.Replayed {
		entry.Details["replayed"] = fmt.Sprint(c.Replayed)
	}
	t.arguments(&entry, c.ArgsJSON)
	t.Trail.Record(context.Background(), entry.ByGrant(c.Owner))
}

// arguments puts the arguments of a tool into an entry: sealed, so that the stored
// trail does not reveal them, in the clear, or not at all. Long ones are replaced
// by their hash and length.
func (t Tools) arguments(entry *audit.Entry, arguments json.RawMessage) {
	if len(arguments) == 0 || t.Arguments == audit.ArgumentsNone {
		return
	}
	if len(arguments) > audit.MaxParams {
		sum := sha256.Sum256(arguments)
		entry.Details["args_sha256"], entry.Details["args_bytes"] = hex.EncodeToString(sum[:]), strconv.Itoa(len(arguments))
		return
	}
	if t.Arguments == audit.ArgumentsShown {
		entry.Params = arguments
		return
	}
	sealed, err := t.Sealer.Seal(arguments, ArgumentsPurpose)
	if err != nil {
		t.Log.Warn("the arguments of a tool are not recorded", "tool", entry.Resource, "error", err)
		return
	}
	entry.Sealed = sealed
}
