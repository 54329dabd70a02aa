package commands

import "github.com/aibridge/aibridge/protocol"

// limit refuses a request of a caller who makes too many.
func (r *Router) limit(who *protocol.Principal, size int) *protocol.Error {
	if r.opts.Limiter == nil || who == nil {
		return nil
	}
	return r.opts.Limiter.Admit(who, size)
}
