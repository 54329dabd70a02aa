package entities

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A Command is a message on a topic below set.
type Command struct {
	Who     *protocol.Principal // the publisher, with whose rights it is run
	Client  string
	Topic   string
	Payload []byte // only until Take returns
}

// CommandFilter is the filter of the topics of commands.
func (s *Publisher) CommandFilter() string { return protocol.NewTopics(s.Root).Entity("+", "+/set") }

// commandWithin bounds the time of a command, and approvalWithin the time until its
// approval before that.
const (
	commandWithin  = 30 * time.Second
	approvalWithin = 10 * time.Minute
)

// Take has a command done, as its publisher and by the way that all commands go.
// It does not block.
func (s *Publisher) Take(c Command) {
	s.mu.Lock()
	to, known := s.inputs[c.Topic]
	s.mu.Unlock()
	if !known || c.Who.Home() != s.space() {
		s.Metrics.command(protocol.Errorf(protocol.NotFound, "there is no such entity"))
		return
	}
	what, err := to.call(c.Payload)
	if err != nil {
		s.refuse(c, to, protocol.Errorf(protocol.InvalidParameter, "%s", err))
		return
	}
	c.Payload = nil
	if !s.begin(func() { s.done(c, to, s.do(c, to.skill, what)) }) {
		s.refuse(c, to, protocol.Errorf(protocol.Busy, "too many commands of Home Assistant are at work"))
	}
}

// begin has a command done, if there is room for it.
func (s *Publisher) begin(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working == mostCommands || s.over.Err() != nil {
		return false
	}
	s.working++
	s.asking.Go(func() {
		do()
		s.mu.Lock()
		s.working--
		s.mu.Unlock()
	})
	return true
}

func (s *Publisher) done(c Command, to target, err error) {
	if err != nil {
		s.refuse(c, to, protocol.AsError(err))
		return
	}
	s.Metrics.command(nil)
	s.read(to.skill)
}

// refuse notes why a command was not carried out. Home Assistant gets no error,
// only the unchanged state again.
func (s *Publisher) refuse(c Command, to target, err *protocol.Error) {
	s.Metrics.command(err)
	s.Log.Info("a command of Home Assistant is not done", "topic", c.Topic, "principal", c.Who.ID, "client", c.Client, "space", s.Space, "error", err)
	s.mu.Lock()
	if d := s.skills[to.skill]; d != nil {
		d.told = nil
	}
	s.mu.Unlock()
	s.read(to.skill)
}

func (s *Publisher) do(c Command, skill protocol.SkillID, what call) error {
	if what.risky {
		ctx, cancel := context.WithTimeout(s.over, approvalWithin)
		defer cancel()
		return s.Ask(ctx, c.Who, skill, what.capability, what.params)
	}
	ctx, cancel := context.WithTimeout(s.over, commandWithin)
	defer cancel()
	params, err := json.Marshal(map[string]any{"skill_id": skill, "capability_id": what.capability, "params": what.params})
	if err != nil {
		return err
	}
	request := protocol.Request{
		Version: protocol.Version, ID: protocol.NewID(), Command: "skill.invoke", Params: params,
		Timestamp: time.Now().UnixMilli(), Metadata: protocol.Metadata{Timeout: commandWithin},
	}
	answer := s.Router.Handle(ctx, commands.Inbound{Principal: c.Who, Request: &request, Door: "mqtt", Client: c.Client})
	if answer.Err != nil {
		return answer.Err
	}
	return nil
}
