package conformance

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aibridge/aibridge/protocol"
)

func eventClauses() []clause {
	const where = "docs/protocol.md#an-agents-side-of-a-call"
	return []clause{
		{name: "event/progress", where: where, says: "task.progress has a percent from 0 to 100 and a message; events come before the response, and seq counts up within one id", run: tellsProgress},
		{name: "event/accepted", where: where, says: "task.accepted comes first and at most once, and tells of long work that it has begun", run: acceptsLongWork},
		{name: "event/delta", where: where, says: "task.delta is a piece of a stream: any object", needs: "stream", run: streams},
		{name: "event/rejected", where: where, says: "task.rejected with a reason ends the call: no response follows", needs: "reject", run: rejects},
	}
}

// events are the events about an exchange that came so far, checked for what
// all of them have in common.
func (x *exchange) events() ([]*protocol.Event, error) {
	seen, _ := x.stage.bridge.record.since(x.stage.place)
	var events []*protocol.Event
	answered := false
	for i := range seen {
		if isResponse(x.id)(&seen[i]) {
			answered = true
		}
		if !isEvent(x.id, "")(&seen[i]) {
			continue
		}
		e := seen[i].envelope.Event
		switch {
		case answered:
			return nil, fmt.Errorf("the event %s comes after the response", e.Name)
		case len(events) > 0 && e.Seq <= events[len(events)-1].Seq:
			return nil, fmt.Errorf("seq of %s is %d, after %d", e.Name, e.Seq, events[len(events)-1].Seq)
		case e.Metadata.TraceID != "" && e.Metadata.TraceID != x.trace:
			return nil, fmt.Errorf("trace_id of %s is %q, not that of the request", e.Name, e.Metadata.TraceID)
		case e.Name == "task.accepted" && len(events) > 0:
			return nil, fmt.Errorf("task.accepted comes after %s", events[0].Name)
		case !isObject(e.Data):
			return nil, fmt.Errorf("data of %s is %s, no object", e.Name, e.Data)
		}
		events = append(events, e)
	}
	return events, nil
}

func isObject(data []byte) bool {
	var object map[string]any
	return json.Unmarshal(data, &object) == nil && object != nil
}

func tellsProgress(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("progress", `{"steps":4}`))
	if err != nil {
		return err
	}
	var result struct {
		Steps int `json:"steps"`
	}
	if err := x.result(ctx, &result); err != nil {
		return err
	}
	events, err := x.events()
	if err != nil {
		return err
	}
	var told []float64
	for _, e := range events {
		if e.Name != "task.progress" {
			continue
		}
		var data struct {
			Percent *float64 `json:"percent"`
			Message *string  `json:"message"`
		}
		if json.Unmarshal(e.Data, &data) != nil || data.Percent == nil || data.Message == nil || *data.Percent < 0 || *data.Percent > 100 {
			return fmt.Errorf("data of task.progress is %s", e.Data)
		}
		told = append(told, *data.Percent)
	}
	if fmt.Sprint(told) != "[25 50 75 100]" {
		return fmt.Errorf("progress with 4 steps tells %v percent, not 25, 50, 75 and 100", told)
	}
	return nil
}

func acceptsLongWork(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("slow", `{"ms":600000}`))
	if err != nil {
		return err
	}
	if _, _, err := s.await(ctx, s.place, "tell with task.accepted that a call of ten minutes has begun", isEvent(x.id, "task.accepted")); err != nil {
		return err
	}
	if err := s.cancel(ctx, x.id); err != nil {
		return err
	}
	if err := s.ended(ctx, x.id); err != nil {
		return err
	}
	_, err = x.events()
	return err
}

func streams(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("stream", `{"pieces":["Hel","lo"]}`))
	if err != nil {
		return err
	}
	var result any
	if err := x.result(ctx, &result); err != nil {
		return err
	}
	events, err := x.events()
	if err != nil {
		return err
	}
	var told string
	for _, e := range events {
		var data struct {
			Text string `json:"text"`
		}
		if e.Name == "task.delta" && json.Unmarshal(e.Data, &data) == nil {
			told += data.Text + "|"
		}
	}
	if told != "Hel|lo|" {
		return fmt.Errorf("the pieces of the stream are %q", told)
	}
	return nil
}

func rejects(ctx context.Context, s *stage) error {
	x, err := s.send(ctx, invocation("reject", `{"reason":"the oven is off"}`))
	if err != nil {
		return err
	}
	_, seen, err := s.await(ctx, s.place, "tell with task.rejected that it declines", isEvent(x.id, "task.rejected"))
	if err != nil {
		return err
	}
	var data struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(seen.envelope.Event.Data, &data) != nil || data.Reason != "the oven is off" {
		return fmt.Errorf("data of task.rejected is %s", seen.envelope.Event.Data)
	}
	if err := s.echo(ctx); err != nil {
		return err
	}
	if s.bridge.record.count(s.place, isResponse(x.id)) > 0 {
		return fmt.Errorf("it answers the call that it has rejected")
	}
	return nil
}
