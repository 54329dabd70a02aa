package commands

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// schedule fixes until when a call runs and until when its answer is kept.
func (c *Call) schedule(in Inbound) error {
	timeout, skew := c.request.Metadata.Timeout, c.router.opts.Skew
	c.Deadline = c.arrived.Add(timeout)
	if in.Expiry > 0 && in.Expiry < timeout {
		c.Deadline = c.arrived.Add(in.Expiry)
	}
	c.own.deadline = c.Deadline
	age := c.age()
	switch {
	case age > timeout+skew:
		err := protocol.Errorf(protocol.RequestExpired, "the request is older than its timeout by the clock of the bridge; check the clocks of both, or send timestamp 0 without one").
			With("age_ms", age.Milliseconds()).With("timeout_ms", timeout.Milliseconds())
		if c.request.Timestamp < secondsBelow {
			err.Message = "the timestamp must be Unix milliseconds, or 0 without a clock, and looks like seconds"
			err = err.With("param_name", "timestamp").With("reason", "must be Unix milliseconds, looks like seconds")
		}
		return err
	case age < -skew:
		c.notices = append(c.notices, "the timestamp lies in the future; the time of arrival was taken instead")
		age = 0
	}
	c.keep = c.steady.Add(timeout + skew - age)
	return nil
}

// age is the time since the request was sent, 0 of one without a timestamp.
func (c *Call) age() time.Duration {
	ms := c.request.Timestamp
	if ms == 0 {
		return 0
	}
	if now := c.arrived.UnixMilli(); now-latelyMillis < ms && ms < now+latelyMillis {
		return time.Duration(c.arrived.UnixNano() - ms*int64(time.Millisecond))
	}
	return c.arrived.Sub(time.UnixMilli(ms)) // takes longer, and does not overflow
}

// latelyMillis is a day, in milliseconds.
const latelyMillis = 24 * 60 * 60 * 1000

// secondsBelow tells timestamps in seconds from those in milliseconds: no client
// means a moment in the spring of 1973 or before.
const secondsBelow = 100_000_000_000

// lasts is the time that a call may take from its arrival on: until its deadline, or
// until the credential that it is made with expires.
func (c *Call) lasts(now time.Time) time.Duration {
	until := c.Deadline
	if end := c.Principal.Expires; end.After(now) && end.Before(until) {
		until = end
	}
	return until.Sub(c.arrived)
}

// expire answers a call whose time is over. Its handler may go on, but without
// a worker slot: others need it.
func (c *Call) expire() {
	r := c.router
	if now := r.opts.Now(); now.Before(c.Deadline) { // then it was the credential's time
		if err := r.opts.Credentials.Check(c.Principal); err != nil {
			r.fail(c, asError(err))
		} else {
			c.Hold()                         // for good: it may have ended by now
			r.deadlines.set(c, c.lasts(now)) // the clock was set back meanwhile
		}
		return
	}
	c.own.end(context.DeadlineExceeded)
	timeout := c.Deadline.Sub(c.arrived)
	err := protocol.Errorf(protocol.TimedOut, "timed out after %v", timeout).With("timeout_ms", timeout.Milliseconds())
	r.answer(c, outcome{err: r.seen(c, err)})
	r.withdraw(c)
	if c.surrender() {
		r.slots.release()
	}
}

// withdraw takes a call out of the entry it has joined, if any.
func (r *Router) withdraw(c *Call) {
	if r.ledger.withdraw(c) {
		r.inFlight.leave(c)
	}
}

// conclude answers a call and all that joined it, and stores the answer in the
// ledger for later repeats.
func (r *Router) conclude(c *Call, out outcome) {
	out.err = r.seen(c, out.err)
	now, steady := r.moment()
	var joined []*Call
	if c.entry != nil {
		forgotten := c.untried || c.unfinished(out.err)
		if forgotten && c.mayHaveActed(out.err) {
			forgotten, out.err = false, halfDone(out.err)
		}
		if forgotten {
			joined = r.ledger.forget(c.entry)
		} else {
			joined = r.ledger.finish(c.entry, out, steady)
		}
		if c.first {
			r.settleClaim(c, out, forgotten)
		}
	}
	if len(joined) > 0 { // they know the call by its entry
		c.again = false
	}
	c.own.end(context.Canceled) // nothing of the call is left to run
	r.settle(c, out, now)
	out.repeat = true
	for _, waiting := range joined {
		r.settle(waiting, out, now)
	}
}

func (r *Router) settle(c *Call, out outcome, now time.Time) {
	r.deadlines.clear(c)
	if !r.reply(c, out, now) {
		r.audit(c, out, auditLate, now)
	}
	r.inFlight.leave(c)
}

// unfinished reports whether the repeat of a call is to run it, rather than to get its
// error from the ledger: the error asks for the same request again, or the call was abandoned.
func (c *Call) unfinished(err *protocol.Error) bool {
	return err != nil && (err.Code.Retry() != protocol.RetryNever || c.abandoned.Load())
}

// mayHaveActed reports whether a call that failed may have had an effect that its repeat
// would have once more. A change of the store that an act made and that was not
// confirmed, such as the record of a task, may be found later and carried out.
func (c *Call) mayHaveActed(err *protocol.Error) bool {
	return c.acted.Load() || !c.untried && c.command.Effect == Act && errors.Is(err, protocol.ErrUnconfirmed)
}

// halfDone is the error of a call that has acted and did not come to its end.
func halfDone(err *protocol.Error) *protocol.Error {
	unknown := protocol.Wrap(protocol.OutcomeUnknown, err, "the request has done a part of what it does and is not run again; look before you send it again with a new id: "+err.Message)
	unknown.Details = maps.Clone(err.Details)
	delete(unknown.Details, "retry_after_ms")
	return unknown
}

// answer replies to one call before or beside its way through the pipeline.
func (r *Router) answer(c *Call, out outcome) { r.reply(c, out, r.opts.Now()) }

// reply replies to one call, once, and reports whether this was it.
func (r *Router) reply(c *Call, out outcome, now time.Time) bool {
	if c.answered.Swap(true) {
		return false
	}
	if c.unwatch != nil {
		c.unwatch()
	}
	resp := &c.own.response
	c.request.AnswerIn(resp, r.opts.BridgeID, now)
	resp.Result, resp.Err = out.result, out.err
	if r.opts.State != nil && c.command != nil && c.command.Effect == Write {
		resp.Metadata.Revision = r.opts.State.Revision()
	}
	r.refusedTo(c, out.err)
	if len(c.notices)+len(out.warnings) > 0 {
		resp.Metadata.Warnings = slices.Concat(resp.Metadata.Warnings, c.notices, out.warnings)
	}
	took := now.Sub(c.arrived)
	r.metrics.answered(c, out.err, took)
	r.endSpan(c, out.err)
	r.log(c, out.err, took)
	r.audit(c, out, auditAnswer, now)
	c.reply(resp)
	return true
}

// seen lets the error handler of the extensions see an error before the
// caller does.
func (r *Router) seen(c *Call, err *protocol.Error) (shown *protocol.Error) {
	defer func() {
		if p := recover(); p != nil {
			shown = panicked(p)
		}
	}()
	if h := r.opts.Extensions.ErrorHandler; h != nil && err != nil {
		if changed := h.HandleError(c.ctx, c, err); changed != nil {
			return changed
		}
	}
	return err
}

func (r *Router) log(c *Call, err *protocol.Error, took time.Duration) {
	level := slog.LevelDebug
	if err != nil && err.Code[0] == '5' {
		level = slog.LevelError
	}
	if !r.opts.Log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("command", c.Command), slog.String("id", c.RequestID), slog.String("trace_id", c.TraceID),
		slog.String("door", c.Door), slog.Duration("took", took),
	}
	if c.Principal != nil {
		attrs = append(attrs, slog.String("principal", c.Principal.ID))
	}
	if err == nil {
		r.opts.Log.LogAttrs(context.Background(), level, "command done", attrs...)
		return
	}
	attrs = append(attrs, slog.String("code", string(err.Code)), slog.String("error", err.Message))
	if cause := err.Unwrap(); cause != nil {
		attrs = append(attrs, slog.String("cause", cause.Error()))
	}
	var p *panicError
	if errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	r.opts.Log.LogAttrs(context.Background(), level, "command failed", attrs...)
}

// emit sends an event of a call to the waiting callers that asked for events.
func (r *Router) emit(c *Call, name string, data any) {
	listeners := []*Call{c}
	if c.entry != nil {
		listeners = r.ledger.listeners(c.entry)
	}
	var raw []byte
	for _, l := range listeners {
		if l == nil || l.listen == nil || l.answered.Load() {
			continue
		}
		if raw == nil {
			var err error
			if raw, err = json.Marshal(data); err != nil {
				r.opts.Log.Error("event cannot be written as JSON", "command", c.Command, "event", name, "error", err)
				return
			}
		}
		l.listen(&protocol.Event{
			Version:   protocol.Version,
			ID:        l.RequestID,
			Timestamp: r.opts.Now().UnixMilli(),
			Name:      name,
			Seq:       l.seq.Add(1),
			Data:      raw,
			Metadata:  protocol.Metadata{SenderID: r.opts.BridgeID, TraceID: l.TraceID},
		})
	}
}
