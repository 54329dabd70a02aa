package run

import (
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// toolFault converts the error of a tool to a fault of workflows.
func toolFault(r *tools.Result) *fault.Error {
	e := protocol.AsError(r.Err)
	if e == nil {
		return fault.Errorf(fault.ToolFailed, "%s", r.Text)
	}
	code := fault.ToolFailed
	switch e.Code {
	case protocol.PermissionDenied:
		code = fault.NotAvailable
	case protocol.OutcomeUnknown, protocol.TimedOut:
		code = fault.OutcomeUnknown
	case protocol.InvalidParameter:
		code = fault.SchemaValidation
	case protocol.Cancelled:
		code = fault.Aborted
	}
	f := fault.Errorf(code, "%s", r.Text).With("bridgeCode", string(e.Code))
	if reason, ok := e.Details["reason"]; ok {
		f = f.With("reason", reason)
	}
	return f
}
