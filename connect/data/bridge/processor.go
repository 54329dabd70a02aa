package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/aibridge/aibridge/protocol"
)

const processorDescription = `
The result replaces the message, or is put into it where ` + "`result_field`" + ` says. The processor ` + "`branch`" + ` does what goes further.

A call that fails leaves the message as it is, marks it as failed, and says why in the metadata, for the processors ` + "`catch` and `switch`" + `. Lost connections and a busy bridge are waited out as long as the call has time.

### Metadata

` + "```text" + `
- aibridge_code       ok, or the error code, such as 3005
- aibridge_agent_id   agent that did it, if it was one
` + "```" + `
`

func processorSpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Categories("Integration").
		Summary("Has a skill of an AI Bridge do something for each message.").
		Description(processorDescription).
		Fields(connectionFields()...).
		Fields(invocationFields()...).
		Fields(
			service.NewStringField("result_field").Description("Name of the field of the message, a JSON object, that gets the result. Without it the result replaces the message.").Default(""),
			service.NewIntField("parallel").Advanced().Description("Calls for messages of one batch that run at a time.").Default(16).
				LintRule(`root = if this < 1 || this > 1000 { ["must be 1 to 1000"] }`),
		)
}

func init() {
	if err := service.RegisterBatchProcessor("aibridge_invoke", processorSpec(), newProcessor); err != nil {
		panic(err)
	}
}

type processor struct {
	line       line
	invocation *invocation
	field      string
	parallel   int
}

func newProcessor(conf *service.ParsedConfig, mgr *service.Resources) (service.BatchProcessor, error) {
	at, err := newAddress(conf, mgr)
	if err != nil {
		return nil, err
	}
	p := &processor{line: line{at: at}}
	if p.invocation, err = newInvocation(conf); err != nil {
		return nil, err
	}
	if p.field, err = conf.FieldString("result_field"); err != nil {
		return nil, err
	}
	if p.parallel, err = conf.FieldInt("parallel"); err == nil && p.parallel < 1 {
		err = errors.New("parallel: must be 1 to 1000")
	}
	return p, err
}

// ProcessBatch calls the skill for each message.
func (p *processor) ProcessBatch(ctx context.Context, batch service.MessageBatch) ([]service.MessageBatch, error) {
	done := batch.Copy()
	atATime(p.parallel, len(batch), func(i int) {
		got, err := p.invocation.call(ctx, &p.line, batch, i)
		if err == nil {
			err = p.put(done[i], got.Data)
		}
		if err != nil {
			done[i].MetaSetMut("aibridge_code", string(protocol.CodeOf(err)))
			done[i].SetError(err)
			return
		}
		done[i].MetaSetMut("aibridge_code", "ok")
		if got.AgentID != "" {
			done[i].MetaSetMut("aibridge_agent_id", got.AgentID)
		}
	})
	return []service.MessageBatch{done}, ctx.Err()
}

// put puts a result into a message.
func (p *processor) put(m *service.Message, data json.RawMessage) error {
	if len(data) == 0 {
		data = json.RawMessage("null")
	}
	if p.field == "" {
		m.SetBytes(data)
		return nil
	}
	content, err := m.AsStructuredMut()
	object, ok := content.(map[string]any)
	if err != nil || !ok {
		return protocol.InvalidParam("result_field", "the message is no JSON object, so nothing can be put into it")
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return protocol.Wrap(protocol.Internal, err, fmt.Sprintf("the result is no JSON: %v", err))
	}
	object[p.field] = value
	m.SetStructuredMut(object)
	return nil
}

// Close ends the connection.
func (p *processor) Close(context.Context) error { return p.line.close() }
