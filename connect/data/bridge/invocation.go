package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/redpanda-data/benthos/v4/public/bloblang"
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// invocationFields are the settings of a call of a skill.
func invocationFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewInterpolatedStringField("skill").Description("Id of the skill."),
		service.NewInterpolatedStringField("capability").Description("Id of its capability."),
		service.NewBloblangField("params").Optional().
			Description("A mapping that makes the params, an object. Without it they are the message.").
			Example(`root.celsius = this.target`),
		service.NewInterpolatedStringField("id").Optional().
			Description("Id of the call, from the message: the bridge runs a call once however often it comes with one id and the same params, until `timeout` has passed since the first. What must stay one deed for longer needs an effect key of the capability. An id longer than 64 characters is replaced by its SHA-256.").
			Example(`${! metadata("kafka_topic") }-${! metadata("kafka_partition") }-${! metadata("kafka_offset") }`),
		service.NewInterpolatedStringField("space").Advanced().Optional().
			Description("Space of the skill; the key's own without it."),
		service.NewDurationField("timeout").Description("How long a call may take, at most 5 minutes.").Default("30s"),
	}
}

// An invocation makes calls of messages.
type invocation struct {
	skill, capability, id, space *service.InterpolatedString // the last two may be nil
	params                       *bloblang.Executor          // or nil
	timeout                      time.Duration
}

func newInvocation(conf *service.ParsedConfig) (*invocation, error) {
	var v invocation
	for name, field := range map[string]**service.InterpolatedString{"skill": &v.skill, "capability": &v.capability, "id": &v.id, "space": &v.space} {
		if (name == "id" || name == "space") && !conf.Contains(name) {
			continue
		}
		var err error
		if *field, err = conf.FieldInterpolatedString(name); err != nil {
			return nil, err
		}
	}
	if conf.Contains("params") {
		var err error
		if v.params, err = conf.FieldBloblang("params"); err != nil {
			return nil, err
		}
	}
	var err error
	if v.timeout, err = conf.FieldDuration("timeout"); err != nil {
		return nil, err
	}
	if v.timeout <= 0 || v.timeout > protocol.MaxTimeout {
		return nil, fmt.Errorf("timeout: must be positive and at most %s, is %s", protocol.MaxTimeout, v.timeout)
	}
	return &v, nil
}

// request is skill.invoke's params for a message, and the id of the call, which is
// empty if it is any.
func (v *invocation) request(batch service.MessageBatch, i int) (params map[string]any, id string, err error) {
	params = make(map[string]any, 4)
	for name, text := range map[string]*service.InterpolatedString{"skill_id": v.skill, "capability_id": v.capability, "space_id": v.space, "": v.id} {
		if text == nil {
			continue
		}
		value, err := batch.TryInterpolatedString(i, text)
		switch {
		case err != nil:
			return nil, "", protocol.InvalidParam(name, err.Error())
		case name == "":
			id = value
		case value != "" || name != "space_id":
			params[name] = value
		}
	}
	if len(id) > protocol.MaxIDLength {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	params["params"], err = v.paramsOf(batch, i)
	return params, id, err
}

func (v *invocation) paramsOf(batch service.MessageBatch, i int) (json.RawMessage, error) {
	m := batch[i]
	if v.params != nil {
		var err error
		if m, err = batch.BloblangQuery(i, v.params); err != nil {
			return nil, protocol.InvalidParam("params", "cannot be made of the message: "+err.Error())
		}
		if m == nil {
			return nil, protocol.InvalidParam("params", "the mapping deletes the message")
		}
	}
	raw, err := m.AsBytes()
	if err != nil {
		return nil, protocol.InvalidParam("params", err.Error())
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return nil, protocol.InvalidParam("params", "must be a JSON object")
	}
	return raw, nil
}

// An answer is the part of skill.invoke's result that a pipeline gets.
type answer struct {
	AgentID string          `json:"agent_id"`
	Data    json.RawMessage `json:"data"`
}

// call calls the skill for one message. Errors are the protocol's.
func (v *invocation) call(ctx context.Context, l *line, batch service.MessageBatch, i int) (answer, error) {
	params, id, err := v.request(batch, i)
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	c, err := l.client(ctx)
	if err != nil {
		return answer{}, err
	}
	options := []client.CallOption{client.WithTimeout(v.timeout)}
	if id != "" {
		options = append(options, client.WithID(id))
	}
	return client.Call[answer](ctx, c, "skill.invoke", params, options...)
}

// atATime runs f for 0 to n-1, so many at a time.
func atATime(most, n int, f func(i int)) {
	var all sync.WaitGroup
	places := make(chan struct{}, most)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			f(i)
		})
	}
	all.Wait()
}
