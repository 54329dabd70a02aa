package audit

import (
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Wants implements [commands.Auditor].
func (t *Trail) Wants(effect commands.Effect, code protocol.Code) bool {
	switch {
	case t.o.Level == Off:
		return false
	case t.o.Level == All:
		return true
	case effect == commands.Read:
		return refusal(code)
	}
	// A call that found no room was neither decided nor done; a flood of such calls
	// must not become a flood here.
	return code != protocol.Busy && code != protocol.RateLimited && code != protocol.ShuttingDown
}

// refusal reports whether a code is one for missing rights.
func refusal(code protocol.Code) bool { return len(code) == 4 && code[0] == '2' }

// Admit implements [commands.Auditor]: a call that could not be recorded is not run.
func (t *Trail) Admit() error {
	if t.waiting() <= admitBytes || t.o.Level == Off {
		return nil
	}
	if t.Check() != nil {
		return protocol.Errorf(protocol.StoreUnavailable, "the audit trail cannot be stored")
	}
	return protocol.BusyFor(time.Second, "the audit trail is behind")
}

// Audit implements [commands.Auditor].
func (t *Trail) Audit(a commands.Audited) {
	if plain(&a) && len(a.Params) > len("{}") {
		t.auditPlain(&a)
		return
	}
	if alike(&a) {
		repeat := entryOf(&a)
		repeat.Resource = a.Resource.Type + "/" + a.Resource.ID
		if t.absorbed(&repeat) {
			return
		}
	}
	r := t.recordOf(&a)
	ran := a.Executed || a.Err == nil
	t.enqueue(r, ran && a.Effect != commands.Read, a.Held)
}

// recordOf is the record of a call.
func (t *Trail) recordOf(a *commands.Audited) *record {
	r := t.newRecord(entryOf(a))
	r.on = [2]string{a.Resource.Type, a.Resource.ID}
	if len(a.Params) > len("{}") {
		r.shown = appendShown(r.shown[:0], a.Params, a.Loggable)
		r.params = r.shown
		r.hash = a.Digest
		if r.hash == (commands.Digest{}) {
			r.hash = t.o.Key.Digest(a.Params)
		}
		r.digest = r.hash[:]
	}
	return r
}

// entryOf is the entry of a call, but for its resource and parameters.
func entryOf(a *commands.Audited) Entry {
	e := Entry{
		Time: a.At, Event: a.Command, Code: OK, Action: a.Action, RequestID: a.RequestID, TraceID: a.TraceID,
		Door: a.Door, Address: a.Address, Async: a.Async, Late: a.Late,
	}.By(a.Principal)
	if a.SenderID != e.Principal {
		e.ActsFor = a.SenderID
	}
	if a.Err != nil {
		e.Code, e.Reason = string(a.Err.Code), reason(a)
	}
	e.Security = a.Err != nil && refusal(a.Err.Code) && !byAgent(a) || a.Err == nil && guarded(a.Command, a.Effect)
	return e
}

// byAgent reports whether an error is an agent's answer, which is no decision of
// the bridge.
func byAgent(a *commands.Audited) bool {
	return a.Executed && a.Effect == commands.Act && a.Err.Details["agent_id"] != nil
}

// alike reports whether a call may be counted with others that were refused
// likewise: nothing came of it. A command that acts on the world may have done a
// part of it.
func alike(a *commands.Audited) bool {
	return a.Err != nil && !a.Async && !a.Late && !(a.Executed && a.Effect == commands.Act)
}

// guarded reports whether operators are told of a change by the command.
func guarded(command string, effect commands.Effect) bool {
	if effect == commands.Read {
		return false
	}
	for i := range len(command) {
		if command[i] == '.' {
			switch command[:i] {
			case "key", "cert", "policy", "session":
				return true
			}
			return false
		}
	}
	return false
}

// reason is the reason why a call failed, without its arguments: a text that a
// handler made, or that is about a parameter, may hold some of it.
func reason(a *commands.Audited) string {
	if refusal(a.Err.Code) && !a.Executed {
		return a.Err.Message
	}
	if param, ok := a.Err.Details["param_name"].(string); ok && !a.Executed {
		return a.Err.Code.String() + ": " + param
	}
	return a.Err.Code.String()
}
