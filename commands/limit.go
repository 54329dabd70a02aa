package commands

import "github.com/aibridge/aibridge/protocol"

// A RefusalLimiter is a [Limiter] that bounds how often callers are refused,
// too.
type RefusalLimiter interface {
	// Refusal takes into account that a command was refused: with a code of
	// class 1 or 2.
	Refusal(who *protocol.Principal)
}

// refusedTo tells the limiter, if it wants to know, of a refusal.
func (r *Router) refusedTo(who *protocol.Principal, err *protocol.Error) {
	if r.refusals == nil || who == nil || err == nil || len(err.Code) == 0 {
		return
	}
	if class := err.Code[0]; class == '1' || class == '2' {
		r.refusals.Refusal(who)
	}
}

// limit refuses a request of a caller who makes too many.
func (r *Router) limit(who *protocol.Principal, size int) *protocol.Error {
	if r.opts.Limiter == nil || who == nil {
		return nil
	}
	return r.opts.Limiter.Admit(who, size)
}
