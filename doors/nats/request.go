package nats

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// Headers of requests, beside the credential.
const (
	idHeader      = nats.MsgIdHdr // id of the request, the same when it is sent again
	timeoutHeader = "X-Timeout-Ms"
	traceHeader   = "Traceparent"
)

// skillLevel is the level of subjects below the root that skills are invoked on.
const skillLevel = "skill"

// A request is one message of a NATS client.
type request struct {
	*nats.Msg
	who   *protocol.Principal
	began time.Time
	bare  bool // the answer has no envelope

	stream *stream // of the answer to a prompt, nil of other requests
}

// body is the answer as the request wants it.
func (r *request) body(response *protocol.Response) []byte {
	switch {
	case !r.bare:
		return response.Append(nil)
	case response.Err != nil:
		return append(response.Err.Append([]byte(`{"error":`)), '}')
	}
	return response.Result
}

// inbound is the request for the router.
func (d *Door) inbound(r *request, body []byte) commands.Inbound {
	in := commands.Inbound{Principal: r.who, Body: body, Door: Name, Traceparent: r.Header.Get(traceHeader)}
	if r.Reply != "" && !r.bare {
		in.Emit = func(e *protocol.Event) {
			if err := d.conn.Publish(r.Reply, e.Append(nil)); err != nil {
				d.Log.Warn("event of a NATS request not sent", "subject", r.Subject, "error", err)
			}
		}
	}
	return in
}

// envelope runs a request envelope.
func (d *Door) envelope(r *request) *protocol.Response {
	return d.Router.Handle(d.ctx, d.inbound(r, r.Data))
}

// skill invokes the capability that the subject names, with the message as its
// params.
func (d *Door) skill(r *request) *protocol.Response {
	r.bare = true
	asked, err := d.invocation(r)
	if err != nil {
		return d.failure(err)
	}
	return d.Router.Handle(d.ctx, d.inbound(r, asked.Append(nil)))
}

// invocation is the request that subject, headers and message describe.
func (d *Door) invocation(r *request) (*protocol.Request, *protocol.Error) {
	topic, err := topicOf(r.Subject)
	levels := strings.Split(topic, "/")
	if err != nil || len(levels) != 4 {
		return nil, protocol.InvalidParam("subject", "names no skill and capability")
	}
	params := bytes.TrimSpace(r.Data)
	switch {
	case len(params) == 0:
		params = []byte("{}")
	case len(params) > d.Limits.MaxBytes:
		return nil, protocol.Errorf(protocol.PayloadTooLarge, "requests may have %d bytes", d.Limits.MaxBytes).With("limit", d.Limits.MaxBytes)
	case params[0] != '{' || !json.Valid(params):
		return nil, protocol.InvalidParam("params", "the message must be one JSON object")
	}
	asked := &protocol.Request{
		Version: protocol.Version, ID: r.Header.Get(idHeader), Timestamp: time.Now().UnixMilli(), Command: "skill.invoke",
		Metadata: protocol.Metadata{Timeout: protocol.DefaultTimeout},
	}
	if asked.ID == "" {
		asked.ID = protocol.NewID()
	}
	if text := r.Header.Get(timeoutHeader); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 1 || ms > protocol.MaxTimeout.Milliseconds() {
			return nil, protocol.InvalidParam(timeoutHeader, "must be a whole number of milliseconds from 1 to "+strconv.FormatInt(protocol.MaxTimeout.Milliseconds(), 10))
		}
		asked.Metadata.Timeout = time.Duration(ms) * time.Millisecond
	}
	asked.Params, err = json.Marshal(struct {
		Skill      string          `json:"skill_id"`
		Capability string          `json:"capability_id"`
		Params     json.RawMessage `json:"params"`
	}{levels[2], levels[3], params})
	if err != nil {
		return nil, protocol.AsError(err)
	}
	return asked, nil
}

// subjectOfSkill is the subject at which a capability is invoked. Few are invoked by no
// subject.
func (d *Door) subjectOfSkill(skill protocol.SkillID, capability protocol.CapabilityID) (string, bool) {
	subject, err := subjectOf(d.Root+"/"+skillLevel+"/"+string(skill)+"/"+string(capability), false)
	return subject, err == nil
}

// mustSubject is the subject of a level that was checked.
func mustSubject(level string) string {
	subject, _ := subjectOf(level, false)
	return subject
}
