package run

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

// An auditLine is the entry of a call in a run's log: sizes and hashes, and no contents.
// Refused calls are there too.
type auditLine struct {
	At           time.Time  `json:"at"`
	Turn         string     `json:"turn"`
	CallID       string     `json:"callId"`
	Tool         string     `json:"tool"`
	Node         string     `json:"nodeId,omitempty"`
	OK           bool       `json:"ok"`
	Code         fault.Code `json:"code,omitempty"`
	ArgsBytes    int        `json:"argsBytes"`
	ArgsSHA256   string     `json:"argsSha256"`
	ResultBytes  int        `json:"resultBytes"`
	ResultSHA256 string     `json:"resultSha256"`
	DurationMS   float64    `json:"durationMs"`
	Replayed     bool       `json:"replayed,omitempty"`

	args json.RawMessage // for the audit of the bridge alone
}

// An Audited is the entry of a call of a tool for the bridge's audit trail.
type Audited struct {
	At       time.Time
	Owner    grant.Grant // of the principal that started the run
	Run      string
	Turn     string
	CallID   string
	Node     string
	Tool     string
	Code     protocol.Code // "" for success
	Fault    fault.Code
	Args     string // SHA-256 of the arguments
	ArgsJSON json.RawMessage
	Result   string // SHA-256 of the result
	Replayed bool
	TraceID  string
}

// logFile is the run's log, below @state. Models read it and do not write it.
const logFile = "logs/execution.jsonl"

// recorder returns the function that records a run's calls: in its log, the metrics and
// the audit trail.
func (s *Service) recorder(ctx context.Context, state mount.FS, r *Record) func(auditLine) error {
	return func(l auditLine) error {
		s.metrics.called(l.Code)
		raw, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if s.opts.Audit != nil {
			s.opts.Audit(Audited{
				At: l.At, Owner: r.Owner, Run: r.ID, Turn: l.Turn, CallID: l.CallID, Node: l.Node, Tool: l.Tool, Code: wireCode(l.Code), Fault: l.Code,
				Args: l.ArgsSHA256, ArgsJSON: l.args, Result: l.ResultSHA256, Replayed: l.Replayed, TraceID: r.TraceID,
			})
		}
		return state.Append(context.WithoutCancel(ctx), logFile, append(raw, '\n'))
	}
}

// wireCode converts a fault code to a code of the protocol.
func wireCode(code fault.Code) protocol.Code {
	if code == "" {
		return ""
	}
	if wire, ok := fault.Codes()[code]; ok {
		return wire
	}
	return protocol.Internal
}
