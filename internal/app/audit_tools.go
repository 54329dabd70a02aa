package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// argumentsPurpose is what the arguments of tools are sealed for.
const argumentsPurpose = "audit/arguments"

// recordToolCall records what became of a call of a tool, by a model or by
// hand: also of one that was refused, or that nobody knows the tool of.
func (a *App) recordToolCall(ctx context.Context, env tools.Environment, r *tools.Result) {
	entry := audit.Entry{
		Event: "tool.call", Code: audit.OK, Action: "tool:run", Resource: "tool/" + r.Name, TraceID: env.TraceID, Door: toolDoor,
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
	a.recordArguments(&entry, r.Arguments)
	a.audit.Record(ctx, entry.By(env.Principal))
}

// recordArguments puts the arguments of a tool into an entry as the
// configuration says: sealed, so that the stored trail does not tell them, as
// they are, or not at all. Of long ones there is their hash and length.
func (a *App) recordArguments(entry *audit.Entry, arguments json.RawMessage) {
	how := a.config.Audit.Arguments
	if len(arguments) == 0 || how == audit.ArgumentsNone {
		return
	}
	if len(arguments) > audit.MaxParams {
		sum := sha256.Sum256(arguments)
		entry.Details["args_sha256"], entry.Details["args_bytes"] = hex.EncodeToString(sum[:]), strconv.Itoa(len(arguments))
		return
	}
	if how == audit.ArgumentsShown {
		entry.Params = arguments
		return
	}
	sealed, err := a.seals.Seal(arguments, argumentsPurpose)
	if err != nil {
		a.log.Warn("the arguments of a tool are not recorded", "tool", entry.Resource, "error", err)
		return
	}
	entry.Sealed = sealed
}
