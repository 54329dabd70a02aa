package device

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// settle brings registrations, subscriptions and presence in line with the devices.
// Failures are tried again at the next beat; an error is about the connection.
func (f *Fleet) settle(ctx context.Context, conn *connection, subscribed map[string]bool) error {
	f.withdraw(ctx)
	for _, m := range f.sorted() {
		f.register(ctx, m)
	}
	if err := f.resubscribe(ctx, conn, subscribed); err != nil {
		return err
	}
	for _, m := range f.sorted() {
		f.attend(ctx, m)
	}
	return nil
}

// sorted lists the devices by id.
func (f *Fleet) sorted() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*member, 0, len(f.members))
	for _, m := range f.members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *member) int { return strings.Compare(string(a.Agent), string(b.Agent)) })
	return list
}

// withdraw unregisters the devices that were taken out, and once the agents that an
// earlier run of the bridge left and that have no description any more.
func (f *Fleet) withdraw(ctx context.Context) {
	f.mu.Lock()
	leaving := make(map[protocol.AgentID]*member, len(f.leaving))
	for id, m := range f.leaving {
		leaving[id] = m
	}
	sweep := f.sweep
	f.mu.Unlock()
	if sweep {
		for _, id := range f.Agents.OwnedBy(f.who.Party()) {
			if _, there := leaving[id]; !there && !f.has(id) {
				leaving[id] = nil
			}
		}
	}
	done := true
	for id, m := range leaving {
		if m != nil {
			m.hangUp("it is described no more")
		}
		if err := f.unregister(ctx, id); err != nil {
			done = false
			f.Log.Warn("a plain device is not withdrawn", "agent", id, "space", f.Space, "error", err)
			continue
		}
		f.mu.Lock()
		if f.leaving[id] == m {
			delete(f.leaving, id)
		}
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if sweep && done {
		f.sweep, f.swept = false, true
	}
}

func (f *Fleet) has(id protocol.AgentID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[id] != nil
}

func (f *Fleet) unregister(ctx context.Context, id protocol.AgentID) error {
	err := f.do(ctx, "agent.unregister", map[string]any{"agent_id": id}, nil)
	if protocol.CodeOf(err) == protocol.NotFound {
		return nil
	}
	return err
}

// register registers a device if it is not.
func (f *Fleet) register(ctx context.Context, m *member) {
	f.mu.Lock()
	due, again := !m.registered && time.Since(m.failed) > beatEvery/2 && f.members[m.Agent] == m, m.again
	f.mu.Unlock()
	if !due {
		return
	}
	params, err := m.registration()
	if err == nil && again { // skills that it has no more would stay
		err = f.unregister(ctx, m.Agent)
	}
	if err == nil {
		err = f.do(ctx, "agent.register", json.RawMessage(params), nil)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m.registered, m.again = err == nil, false
	if err != nil {
		m.failed = time.Now()
	}
	f.tell(m.Agent, err)
}

// tell logs why a device is not registered, once.
func (f *Fleet) tell(id protocol.AgentID, err error) {
	if err == nil {
		delete(f.refused, id)
		return
	}
	if f.refused[id] != err.Error() {
		f.refused[id] = err.Error()
		f.Log.Warn("a plain device is not registered", "agent", id, "origin", f.Origin, "space", f.Space, "error", err)
	}
}

// resubscribe subscribes to the topics of the devices, and to no others.
func (f *Fleet) resubscribe(ctx context.Context, conn *connection, subscribed map[string]bool) error {
	f.mu.Lock()
	var more, less []string
	for topic := range f.topics {
		if !subscribed[topic] {
			more = append(more, topic)
		}
	}
	for topic := range subscribed {
		if f.topics[topic] == nil {
			less = append(less, topic)
		}
	}
	for topic, by := range f.topics {
		if subscribed[topic] && by.fresh() { // retained messages come with a subscription only
			more = append(more, topic)
		}
	}
	for _, m := range f.members {
		m.subscribed = true
	}
	f.mu.Unlock()
	slices.Sort(more)
	for part := range slices.Chunk(more, 64) {
		refused, err := conn.subscribe(ctx, part)
		if err != nil {
			return err
		}
		for topic, reason := range refused {
			f.Log.Warn("a topic of a plain device may not be subscribed to", "topic", topic, "space", f.Space, "reason", reason)
		}
	}
	for part := range slices.Chunk(less, 64) {
		if err := conn.unsubscribe(ctx, part); err != nil {
			return err
		}
	}
	for _, topic := range more {
		subscribed[topic] = true
	}
	for _, topic := range less {
		delete(subscribed, topic)
	}
	return nil
}

// fresh reports whether some devices have not got the retained messages of their topics.
func (by readers) fresh() bool {
	for _, members := range by {
		if slices.ContainsFunc(members, func(m *member) bool { return !m.subscribed }) {
			return true
		}
	}
	return false
}

// beat has a heartbeat sent for every device that is online.
func (f *Fleet) beat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		m.beats = true
	}
}

// attend makes a device online or offline, as it is, and sends its heartbeat.
func (f *Fleet) attend(ctx context.Context, m *member) {
	f.mu.Lock()
	there := m.registered && f.members[m.Agent] == m && m.there(time.Now())
	coming := there && m.line == nil
	due := there && (coming || m.beats)
	if coming {
		m.line = newLine(m)
	}
	l := m.line
	m.beats = false
	f.mu.Unlock()
	switch {
	case !there:
		m.hangUp("it says that it is away")
	case due:
		err := f.do(ctx, "agent.heartbeat", map[string]any{"agent_id": m.Agent}, l)
		if err != nil {
			m.hangUp("the heartbeat failed")
		}
		if protocol.CodeOf(err) == protocol.NotFound { // it was unregistered meanwhile
			f.mu.Lock()
			m.registered = false
			f.mu.Unlock()
			f.stir()
		}
	}
}

// do runs a command as the principal of the devices, over a line if there is
// one.
func (f *Fleet) do(ctx context.Context, command string, params any, l *line) error {
	raw, ok := params.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(params); err != nil {
			return err
		}
	}
	request := protocol.Request{Version: protocol.Version, ID: protocol.NewID(), Command: command, Params: raw}
	in := commands.Inbound{Principal: f.who, Request: &request, Door: "bridge"}
	if l != nil {
		in.Line = l
	}
	if answer := f.Router.Handle(ctx, in); answer.Err != nil {
		return answer.Err
	}
	return nil
}
