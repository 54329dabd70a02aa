package client

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// answerGrace is the time that a caller waits longer than the bridge, as the
// bridge's own 4007 has more details.
const answerGrace = time.Second

// Call runs a command and returns its result as R; [json.RawMessage] leaves it
// as it is. Params are the command's parameters, marshalled with encoding/json;
// nil means none.
//
// The error is a [*protocol.Error]: the bridge's own, or 4006 when it could not be
// reached, 4012 when the connection was lost and the answer with it, 4007 when time
// ran out, 4013 when ctx was cancelled. Within the time there is, lost connections
// and busy bridges are waited out: see the package.
func Call[R any](ctx context.Context, c *Client, command string, params any, opts ...CallOption) (R, error) {
	var result R
	raw, err := c.call(ctx, command, params, opts)
	if err != nil {
		return result, err
	}
	if r, ok := any(&result).(*json.RawMessage); ok {
		*r = raw
		return result, nil
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return result, protocol.Wrap(protocol.Internal, err, "the result of "+command+" does not fit: "+err.Error())
	}
	return result, nil
}

func (c *Client) call(ctx context.Context, command string, params any, opts []CallOption) (json.RawMessage, error) {
	o := callOptions{timeout: protocol.DefaultTimeout}
	for _, set := range opts {
		set(&o)
	}
	if o.seal != nil {
		return c.sealedCall(ctx, command, params, &o)
	}
	request, err := c.request(ctx, command, params, &o)
	if err != nil {
		return nil, err
	}
	if c.cache == nil {
		return c.run(ctx, request, &o)
	}
	if lifetime(command) == 0 {
		if changes(command) {
			defer c.cache.drop(familyOf(command))
		}
		return c.run(ctx, request, &o)
	}
	result, version, ok := c.cache.get(command, request.Params)
	if ok && !o.fresh && o.minRevision == 0 {
		return result, nil
	}
	result, err = c.run(ctx, request, &o)
	if err == nil {
		c.cache.put(command, request.Params, result, version)
	}
	return result, err
}

func (c *Client) request(ctx context.Context, command string, params any, o *callOptions) (*protocol.Request, error) {
	request, err := protocol.NewRequest(command, params)
	if err != nil {
		return nil, err
	}
	if o.id != "" {
		request.ID = o.id
	}
	in := invocationOf(ctx)
	switch {
	case o.traceID != "":
		request.Metadata.TraceID = o.traceID
	case in != nil && in.TraceID != "":
		request.Metadata.TraceID = in.TraceID
	}
	if o.traceparent == "" && in != nil {
		o.traceparent = in.Traceparent
	}
	request.Metadata.Priority = o.priority
	request.Metadata.MinRevision = o.minRevision
	request.Metadata.Events = o.onEvent != nil
	return request, nil
}

// run sends a request until there is a final answer or no time left.
func (c *Client) run(ctx context.Context, request *protocol.Request, o *callOptions) (json.RawMessage, error) {
	deadline := time.Now().Add(min(max(o.timeout, time.Millisecond), protocol.MaxTimeout))
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(deadline) {
		deadline = earlier
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(answerGrace))
	defer cancel()

	sent := false // whether the bridge may have got it
	for attempt := 1; ; attempt++ {
		response, err := c.attempt(ctx, request, deadline, o, &sent)
		if err != nil {
			var lost *lostConnection
			if o.once || !errors.As(err, &lost) || !c.pause(ctx, backoff(attempt, maxBackoff), deadline) {
				return nil, gaveUp(err, sent)
			}
			continue
		}
		if response.Err == nil {
			if o.revision != nil && response.Metadata.Revision > 0 {
				*o.revision = response.Metadata.Revision
			}
			return response.Result, nil
		}
		pause, again := repeatAfter(response.Err, attempt)
		if o.once || !again || !c.pause(ctx, pause, deadline) {
			return nil, response.Err
		}
	}
}

// pause waits before another attempt, if that leaves time for it.
func (c *Client) pause(ctx context.Context, d time.Duration, deadline time.Time) bool {
	return time.Now().Add(d).Before(deadline) && sleep(ctx, d) == nil
}

// attempt sends the request once and waits for the answer. Its error is a
// lostConnection or final.
func (c *Client) attempt(ctx context.Context, request *protocol.Request, deadline time.Time, o *callOptions, sent *bool) (*protocol.Response, error) {
	l, err := c.online(ctx)
	if err != nil {
		return nil, err
	}
	w, ok := c.inbox.await(request.ID, o.onEvent != nil)
	if !ok {
		return nil, protocol.Errorf(protocol.IDReused, "a call with the id %s is under way", request.ID)
	}
	defer c.inbox.leave(request.ID)

	left := time.Until(deadline)
	if left <= 0 {
		return nil, protocol.Errorf(protocol.TimedOut, "no time left to send the request")
	}
	request.Timestamp = time.Now().UnixMilli()
	request.Metadata.Timeout = left
	m := c.requestMessage(request, left, o)
	*sent = true
	if err := c.send(ctx, l, m); err != nil {
		var refused *protocol.Error
		switch {
		case errors.As(err, &refused):
			*sent = false
			return nil, refused
		case ctx.Err() == nil:
			return nil, &lostConnection{err}
		}
	}
	for {
		select {
		case e := <-w.events:
			o.onEvent(e)
		case response := <-w.answer:
			for len(w.events) > 0 {
				o.onEvent(<-w.events)
			}
			return response, nil
		case <-l.ctx.Done():
			return nil, &lostConnection{errors.New("no answer before it was lost")}
		case <-ctx.Done():
			return nil, unanswered(ctx)
		}
	}
}

func (c *Client) requestMessage(request *protocol.Request, expiry time.Duration, o *callOptions) *Message {
	m := &Message{
		Topic:           c.Topics().BridgeRequest(),
		Payload:         request.Append(nil),
		QoS:             1,
		Expiry:          expiry,
		ContentType:     protocol.ContentJSON,
		ResponseTopic:   c.Topics().ClientResponse(c.ID()),
		CorrelationData: []byte(request.ID),
		UserProperties:  []UserProperty{{Key: "version", Value: protocol.Version}, {Key: "trace_id", Value: request.Metadata.TraceID}},
	}
	if o.traceparent != "" {
		m.UserProperties = append(m.UserProperties, UserProperty{Key: "traceparent", Value: o.traceparent})
	}
	return m
}

// unanswered is the error for a wait that ctx ended.
func unanswered(ctx context.Context) *protocol.Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return protocol.Wrap(protocol.Cancelled, context.Cause(ctx), "cancelled before the bridge answered")
	}
	return protocol.Wrap(protocol.TimedOut, ctx.Err(), "the bridge did not answer in time")
}

// gaveUp is the error after the last attempt. If the bridge may have got the
// request, an error of the connection leaves its outcome unknown.
func gaveUp(err error, sent bool) error {
	var lost *lostConnection
	switch {
	case sent && (errors.As(err, &lost) || protocol.CodeOf(err) == protocol.TargetUnavailable):
		return protocol.Wrap(protocol.OutcomeUnknown, err, "the connection to the bridge was lost before it answered")
	case errors.As(err, &lost):
		return protocol.Wrap(protocol.TargetUnavailable, err, "the connection to the bridge was lost")
	}
	return err
}
