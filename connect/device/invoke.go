package device

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/aibridge/aibridge/connect/template"
	"github.com/aibridge/aibridge/protocol"
)

// mostQueued bounds the requests that wait for one device.
const mostQueued = 16

// run carries out a request to the device. Plain messages do not name the request
// that they answer, so a device does one thing at a time.
func (m *member) run(ctx context.Context, r *protocol.Request) (json.RawMessage, *protocol.Error) {
	if r.Command != "skill.invoke" {
		return nil, protocol.Errorf(protocol.UnknownCommand, "a plain device takes no command but skill.invoke").With("command", r.Command)
	}
	var p struct {
		Skill      protocol.SkillID      `json:"skill_id"`
		Capability protocol.CapabilityID `json:"capability_id"`
		Params     json.RawMessage       `json:"params"`
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		return nil, protocol.InvalidParam("params", "cannot be read")
	}
	s := m.skill(p.Skill)
	if s == nil {
		return nil, protocol.Errorf(protocol.NotFound, "the device has no skill %q", p.Skill).With("skill_id", string(p.Skill))
	}
	c := s.capability(p.Capability)
	switch {
	case c == nil && p.Capability == StateCapability && len(s.State) > 0:
		return m.readState(s)
	case c == nil:
		return nil, protocol.Errorf(protocol.NotFound, "skill %q has no capability %q", p.Skill, p.Capability).With("capability_id", string(p.Capability))
	}
	leave, busy := m.queue(ctx)
	if busy != nil {
		return nil, busy
	}
	defer leave()
	return m.perform(ctx, s, c, p.Params)
}

func (m *member) readState(s *Skill) (json.RawMessage, *protocol.Error) {
	m.fleet.mu.Lock()
	state := m.state(s)
	m.fleet.mu.Unlock()
	if len(state) == 0 {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the device has not said anything about its state yet")
	}
	return result(state)
}

// queue waits for the device's turn.
func (m *member) queue(ctx context.Context) (leave func(), err *protocol.Error) {
	m.fleet.mu.Lock()
	full := m.queued >= mostQueued
	if !full {
		m.queued++
	}
	m.fleet.mu.Unlock()
	if full {
		return nil, protocol.BusyFor(time.Second, "too many requests wait for the device")
	}
	left := func() {
		m.fleet.mu.Lock()
		m.queued--
		m.fleet.mu.Unlock()
	}
	select {
	case m.turn <- struct{}{}:
		return func() { <-m.turn; left() }, nil
	case <-ctx.Done():
		left()
		return nil, protocol.Errorf(protocol.Cancelled, "cancelled before anything was sent to the device")
	}
}

// perform publishes the messages of a capability, and waits for the answer.
func (m *member) perform(ctx context.Context, s *Skill, c *Capability, params json.RawMessage) (json.RawMessage, *protocol.Error) {
	messages, err := c.Messages(params, m.fleet.Root)
	if err != nil {
		return nil, protocol.InvalidParam("params", err.Error())
	}
	if err := m.permitted(messages); err != nil {
		return nil, err
	}
	m.fleet.mu.Lock()
	conn := m.fleet.conn
	m.fleet.mu.Unlock()
	if conn == nil {
		return nil, protocol.Errorf(protocol.TargetUnavailable, "the bridge has no connection to plain devices at the moment")
	}
	if c.Answer == nil {
		if err := m.publish(ctx, conn, messages); err != nil {
			return nil, err
		}
		return result(map[string]any{"sent": len(messages)})
	}
	w, err := m.await(c.Answer, params)
	if err != nil {
		return nil, protocol.InvalidParam("params", err.Error())
	}
	defer m.forget(w)
	if err := m.publish(ctx, conn, messages); err != nil {
		return nil, err
	}
	return m.answered(ctx, s, w)
}

// permitted fails if the announcer of the device may not publish the messages.
func (m *member) permitted(messages []Message) *protocol.Error {
	if m.By == nil {
		return nil
	}
	for i := range messages {
		if err := m.fleet.Rights.MayPublish(*m.By, messages[i].Topic, messages[i].Retain); err != nil {
			return protocol.Errorf(protocol.PermissionDenied, "who announced the device may not publish what it is asked with: %s", protocol.AsError(err).Message)
		}
	}
	return nil
}

// publish sends messages in order. After the first, a failure leaves open what
// the device has done.
func (m *member) publish(ctx context.Context, conn *connection, messages []Message) *protocol.Error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := range messages {
		if err := conn.publish(ctx, &messages[i]); err != nil {
			if i > 0 && err.Code != protocol.OutcomeUnknown {
				err = protocol.Errorf(protocol.OutcomeUnknown, "%d of %d messages were sent to the device: %s", i, len(messages), err.Message)
			}
			return err
		}
	}
	return nil
}

// A wait is a request that waits for the device's answer.
type wait struct {
	topics map[string]bool
	since  uint64 // letters that came later may be the answer
	of     *Answer
	params template.Vars
	done   chan struct{}
	value  any // once done is closed
}

// await expects the answer to the message that is published next.
func (m *member) await(a *Answer, params json.RawMessage) (*wait, error) {
	vars, err := paramVars(params)
	if err != nil {
		return nil, err
	}
	w := &wait{topics: map[string]bool{}, of: a, params: vars, done: make(chan struct{})}
	for _, topic := range a.Topics {
		w.topics[topic] = true
	}
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	w.since = m.fleet.seq
	m.waiting[w] = true
	return w, nil
}

// takes reports whether a message is the answer, and reads it.
func (w *wait) takes(message template.Vars, steps *template.Budget) (value any, ok bool) {
	if w.of.Match != nil {
		vars := maps.Clone(message)
		maps.Copy(vars, w.params)
		if v, err := w.of.Match.ValueWithin(steps, vars); err != nil || !template.True(v) {
			return nil, false
		}
	}
	if w.of.Read == nil {
		return nil, true
	}
	v, err := w.of.Read.read(message, steps)
	return v, err == nil
}

// answer ends the wait, if none has before. The mutex of the fleet is held.
func (w *wait) answer(value any) {
	select {
	case <-w.done:
	default:
		w.value = value
		close(w.done)
	}
}

func (m *member) forget(w *wait) {
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	delete(m.waiting, w)
}

// answered waits for the answer.
func (m *member) answered(ctx context.Context, s *Skill, w *wait) (json.RawMessage, *protocol.Error) {
	late := time.NewTimer(cmp.Or(w.of.Timeout, DefaultTimeout))
	defer late.Stop()
	select {
	case <-w.done:
		if w.of.Read != nil {
			return result(map[string]any{"answer": w.value})
		}
		return m.confirmed(s, true)
	case <-late.C:
		if w.of.Optional {
			return m.confirmed(s, false)
		}
		return nil, protocol.Errorf(protocol.TimedOut, "the device did not answer in time; it may have done it all the same")
	case <-ctx.Done():
		return nil, protocol.Errorf(protocol.OutcomeUnknown, "ended while the device was asked; it may have done it")
	}
}

// confirmed is the result of a capability that is confirmed by the device's state.
func (m *member) confirmed(s *Skill, yes bool) (json.RawMessage, *protocol.Error) {
	m.fleet.mu.Lock()
	state := m.state(s)
	m.fleet.mu.Unlock()
	return result(map[string]any{"confirmed": yes, "state": state})
}

func result(v any) (json.RawMessage, *protocol.Error) {
	text, err := template.ToJSON(v)
	if err != nil || errors.Is(err, template.ErrUndefined) {
		return nil, protocol.Errorf(protocol.Internal, "the answer of the device cannot be told")
	}
	return json.RawMessage(text), nil
}
