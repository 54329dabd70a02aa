package commands

import "github.com/aibridge/aibridge/protocol"

// A RefusalLimiter is a [Limiter] that bounds how often callers are refused,
// too.
type RefusalLimiter interface {
	// Refusal takes into account that a command was refused: with a code of
	// class 1 or 2.
	Refusal(who *protocol.Principal)
}

// refusedTo reports a refusal to the counter of refusals and to Options.Refused.
func (r *Router) refusedTo(c *Call, err *protocol.Error) {
	if err == nil || c.Principal == nil || len(err.Code) == 0 {
		return
	}
	class := err.Code[0]
	refused := class == '1' || class == '2'
	if refused && r.refusals != nil {
		r.refusals.Refusal(c.Principal)
	}
	if r.opts.Refused != nil && (refused || err.Code == protocol.RateLimited) {
		r.opts.Refused(c, err)
	}
}

// limit refuses a request of a caller that makes too many.
func (r *Router) limit(who *protocol.Principal, size int) *protocol.Error {
	if r.opts.Limiter == nil || who == nil {
		return nil
	}
	return r.opts.Limiter.Admit(who, size)
}
