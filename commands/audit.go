package commands

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// An Auditor records the ends of calls. Its methods are called on the path of every
// call: they must be quick and must not block.
type Auditor interface {
	// Wants reports whether calls with such an outcome are recorded. Code is ""
	// for success; effect is [Read] if there is no such command.
	Wants(effect Effect, code protocol.Code) bool
	// Admit fails if a call that changes something could not be recorded at its
	// end. Then it is not run and the caller gets the error.
	Admit() error
	// Audit records a call that ended. It must not keep a.Params.
	Audit(a Audited)
}

// An Audited is an [Auditor]'s view of a call. A call whose time ran out while its
// handler was at work is recorded twice: when the caller was answered, and, as
// Late, when the handler was done.
type Audited struct {
	At        time.Time
	Principal *protocol.Principal // nil if there is none
	SenderID  string
	RequestID string
	TraceID   string
	Door      string
	Address   netip.Addr // the zero Addr if not known
	Command   string     // "" if the request was not understood
	Action    string     // the action that policy decided on
	Effect    Effect
	Resource  Resource        // zero unless the parameters were understood
	Params    json.RawMessage // valid JSON, or empty
	Digest    Digest          // of Params, zero until it is needed
	Loggable  []string        // names of the parameters that may be recorded as they are
	Memo      *Memo           // of calls that are alike, nil for most
	Err       *protocol.Error // nil for success
	Executed  bool            // the handler ran, so that Err, if any, is the handler's
	Async     bool            // the outcome is that of a task, recorded after its start was
	Late      bool
	Held      bool // the answer is not sent before the auditor has been called to keep its entries
}

// A Memo is the room for what an [Auditor] knows of calls with the same command, action,
// resource, and parameters that may be recorded as they are. Callers, doors, addresses
// and senders may differ.
type Memo struct{ Known any }

// The kinds of audited outcomes.
const (
	auditAnswer = iota // of a call, as it is answered
	auditAsync         // of a task
	auditLate          // of a call that was answered before
)

// audit records the end of a call with the auditor, if there is one.
func (r *Router) audit(c *Call, out outcome, what int, at time.Time) {
	auditor := r.opts.Auditor
	if auditor == nil || out.repeat {
		return // the answer to a repeat: nothing happened again
	}
	effect, code := Read, protocol.Code("")
	if c.command != nil {
		effect = c.command.Effect
	}
	if out.err != nil {
		code = out.err.Code
	}
	weight := effect
	if c.command != nil && c.command.Routine {
		weight = Read
	}
	if !auditor.Wants(weight, code) {
		return
	}
	a := Audited{
		At: at, Principal: c.Principal, SenderID: c.SenderID, RequestID: c.RequestID, TraceID: c.TraceID,
		Door: c.Door, Address: c.Address, Command: c.Command, Effect: effect, Params: c.request.Params,
		Err: out.err, Async: what == auditAsync, Late: what == auditLate, Held: c.held && what == auditAnswer,
	}
	if c.command != nil {
		a.Action, a.Loggable = c.command.Action, c.command.loggable
	}
	if c.plan != nil {
		a.Memo = c.plan.memo
	}
	c.mu.Lock()
	a.Resource, a.Digest = c.target, c.digest
	c.mu.Unlock()
	a.Executed = c.executed.Load()
	if a.Late && !a.Executed {
		return // it never came to its turn
	}
	auditor.Audit(a)
}

// admit notes the resource of a call and the digest of its params, and refuses a
// call that could not be recorded.
func (r *Router) admit(c *Call, on Resource) error {
	digest := r.prints.digester.Digest(c.request.Params)
	c.mu.Lock()
	c.target, c.digest = on, digest
	c.mu.Unlock()
	if !r.records(c) {
		return nil
	}
	return r.opts.Auditor.Admit()
}

// records reports whether a call is not run unless it can be recorded.
func (r *Router) records(c *Call) bool { return r.opts.Auditor != nil && c.command.Effect != Read }

// started notes that the handler is about to run.
func (r *Router) started(c *Call) {
	if r.opts.Auditor != nil {
		c.executed.Store(true)
	}
}

// loggable lists the parameters of a struct that audit may show as they are:
// identifiers, without which an audit log would be unreadable, and those with the
// tag audit:"yes". The tag audit:"no" hides an identifier.
func loggable(params reflect.Type) (names []string, err error) {
	if params.Kind() != reflect.Struct {
		return nil, nil
	}
	for _, f := range reflect.VisibleFields(params) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous || name == "" || name == "-" {
			continue
		}
		switch tag := f.Tag.Get("audit"); {
		case tag == "yes", tag == "" && identifies(f.Type):
			names = append(names, name)
		case tag != "" && tag != "no":
			return nil, fmt.Errorf("%s: tag audit must be yes or no", name)
		}
	}
	return names, nil
}

func identifies(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Implements(reflect.TypeFor[protocol.Identifier]()) || t == reflect.TypeFor[protocol.Serial]()
}
