package registry

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A request is what agents are asked, whichever of them it will be.
type request struct {
	command string
	params  json.RawMessage
	call    *commands.Call
}

// ask sends a request to the least busy of some agents and waits for the
// answer. It tells which agent that was.
func (s *Service) ask(ctx context.Context, agents []*Agent, r request) (*protocol.Response, *Agent, *failure) {
	e := s.exchanges.begin(s.newID(), agents, func(name string, data []byte) {
		r.call.Emit(name, json.RawMessage(data))
	})
	defer s.exchanges.end(e, outcome{kind: abandoned})

	ctx, end := s.startSpan(ctx, "agent request", "aibridge.agent", string(e.agent.ID), e.id)
	defer end()

	if f := s.send(ctx, e, r); f != nil {
		return nil, e.agent, f
	}
	o, err := s.wait(ctx, e, r)
	if err != nil {
		return nil, e.agent, e.agent.target().gaveUp(err)
	}
	response, f := o.judge(e.agent.target())
	return response, e.agent, f
}

// wait waits for the end of an exchange without holding a worker. When ctx
// ends first, the agent is told to stop.
func (s *Service) wait(ctx context.Context, e *exchange, r request) (o outcome, err error) {
	err = r.call.Park(ctx, func(ctx context.Context) error {
		select {
		case o = <-e.ended:
			return nil
		case <-ctx.Done():
			if !s.exchanges.end(e, outcome{kind: abandoned}) {
				o = <-e.ended // it ended at the same time
				return nil
			}
			s.cancel(ctx, e, r, protocol.CodeOf(context.Cause(ctx)).String())
			return context.Cause(ctx)
		}
	})
	return o, err
}

// send publishes the request envelope (PROTOCOL §8).
func (s *Service) send(ctx context.Context, e *exchange, r request) *failure {
	left := time.Until(r.call.Deadline)
	if left <= 0 {
		return e.agent.target().gaveUp(context.DeadlineExceeded)
	}
	if seen := s.board.see(e.agent.key()); !seen.online || !seen.listening {
		return e.agent.target().unreachable()
	}
	envelope := s.envelope(e.id, r.command, r.params, r.call)
	envelope.Metadata.Timeout = max(left.Truncate(time.Millisecond), time.Millisecond)
	envelope.Metadata.Events = true
	receivers, err := s.publishTo(ctx, e, &envelope, left)
	if err != nil {
		return &failure{err: protocol.AsError(err), again: always}
	}
	if receivers == 0 {
		// A session that just went may still get it when it comes back.
		s.cancel(ctx, e, r, "not delivered in time")
		return e.agent.target().unreachable()
	}
	return nil
}

// envelope begins a request to an agent on behalf of a call.
func (s *Service) envelope(id, command string, params []byte, call *commands.Call) protocol.Request {
	return protocol.Request{
		Version:   protocol.Version,
		ID:        id,
		Timestamp: time.Now().UnixMilli(),
		Command:   command,
		Params:    params,
		Metadata: protocol.Metadata{
			SenderID: s.opts.BridgeID,
			TraceID:  call.TraceID,
			Priority: call.Priority,
		},
	}
}

func (s *Service) publishTo(ctx context.Context, e *exchange, envelope *protocol.Request, expiry time.Duration) (int, error) {
	properties := append(make([][2]string, 0, 3), [2]string{"version", protocol.Version})
	if trace := envelope.Metadata.TraceID; trace != "" {
		properties = append(properties, [2]string{"trace_id", trace})
	}
	if parent := traceparent(ctx); parent != "" {
		properties = append(properties, [2]string{"traceparent", parent})
	}
	return s.opts.Publisher.Publish(s.opts.Topics.AgentRequest(e.agent.ID), envelope.Append(nil), PublishOptions{
		QoS:             1,
		Recipient:       e.agent.Owner,
		Expiry:          expiry,
		ContentType:     jsonType,
		ResponseTopic:   s.opts.Topics.AgentResponse(e.agent.ID),
		CorrelationData: []byte(e.id),
		UserProperties:  properties,
	})
}

// cancel asks an agent to stop working on an exchange. The agent need not
// answer.
func (s *Service) cancel(ctx context.Context, e *exchange, r request, reason string) {
	params, err := json.Marshal(cancelParams{TaskID: e.id, Reason: reason})
	if err != nil {
		s.log.Error("cancellation not rendered", "error", err)
		return
	}
	envelope := s.envelope(s.newID(), "task.cancel", params, r.call)
	if _, err := s.publishTo(context.WithoutCancel(ctx), e, &envelope, cancelExpiry); err != nil {
		s.log.Debug("cancellation not sent", "agent", e.agent.ID, "trace", r.call.TraceID, "error", err)
	}
}

// cancelParams are the params of the task.cancel an agent gets: the id of the
// request it is about.
type cancelParams struct {
	TaskID string `json:"task_id"`
	Reason string `json:"reason"`
}

// cancelExpiry is how long a cancellation is worth delivering.
const cancelExpiry = time.Minute
