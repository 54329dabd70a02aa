package bridge

import (
	"context"
	"errors"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// togetherMost is the number of messages of a batch that are under way at a time.
const togetherMost = 64

const outputDescription = `
One of ` + "`publish` and `invoke`" + ` says what is done with a message. It counts as delivered when the bridge has acknowledged it (QoS 1 and 2), or the skill has answered. Of a batch only the messages are tried again that failed.
`

func outputSpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Categories("Services").
		Summary("Publishes messages at an AI Bridge, or has a skill do something for each.").
		Description(outputDescription).
		Fields(connectionFields()...).
		Fields(
			service.NewObjectField("publish", publishFields()...).Optional().
				Description("Publish to a topic. Messages of one topic keep their order within a batch, and among batches with `max_in_flight: 1`."),
			service.NewObjectField("invoke", invocationFields()...).Optional().
				Description("Invoke a skill. The result is dropped: the processor `aibridge_invoke` keeps it."),
			service.NewIntField("max_in_flight").Description("Batches that are under way at a time.").Default(1).
				LintRule(`root = if this < 1 || this > 1000 { ["must be 1 to 1000"] }`),
			service.NewBatchPolicyField("batching"),
		).
		LintRule(`root = if this.exists("publish") == this.exists("invoke") { [ "one of publish and invoke is needed, and no more than one" ] }`)
}

func init() {
	if err := service.RegisterBatchOutput("aibridge", outputSpec(), newOutput); err != nil {
		panic(err)
	}
}

// A deliverer delivers one message after another of a part of a batch.
type deliverer interface {
	// parts are the messages of a batch by their indexes: messages of a part are
	// sent one after another, parts concurrently.
	parts(service.MessageBatch) [][]int
	deliver(ctx context.Context, l *line, batch service.MessageBatch, i int) error
}

type output struct {
	line line
	to   deliverer
}

func newOutput(conf *service.ParsedConfig, mgr *service.Resources) (service.BatchOutput, service.BatchPolicy, int, error) {
	out, policy, inFlight, err := parseOutput(conf, mgr)
	return out, policy, inFlight, err
}

func parseOutput(conf *service.ParsedConfig, mgr *service.Resources) (out *output, policy service.BatchPolicy, inFlight int, err error) {
	at, err := newAddress(conf, mgr)
	if err != nil {
		return nil, policy, 0, err
	}
	out = &output{line: line{at: at}}
	switch publish, invoke := conf.Contains("publish"), conf.Contains("invoke"); {
	case publish == invoke:
		err = errors.New("one of publish and invoke is needed, and no more than one")
	case publish:
		out.to, err = newPublication(conf.Namespace("publish"))
	default:
		var v *invocation
		v, err = newInvocation(conf.Namespace("invoke"))
		out.to = calls{v}
	}
	if err != nil {
		return nil, policy, 0, err
	}
	if policy, err = conf.FieldBatchPolicy("batching"); err != nil {
		return nil, policy, 0, err
	}
	inFlight, err = conf.FieldMaxInFlight()
	return out, policy, inFlight, err
}

// calls delivers messages to a skill.
type calls struct{ *invocation }

func (calls) parts(batch service.MessageBatch) [][]int {
	parts := make([][]int, len(batch))
	for i := range parts {
		parts[i] = []int{i}
	}
	return parts
}

func (v calls) deliver(ctx context.Context, l *line, batch service.MessageBatch, i int) error {
	_, err := v.call(ctx, l, batch, i)
	return err
}

// Connect waits for the bridge.
func (out *output) Connect(ctx context.Context) error {
	_, err := out.line.client(ctx)
	return err
}

// WriteBatch delivers a batch. Its error says which messages failed. Messages
// behind a failed one in its part fail with it, so that the order is kept.
func (out *output) WriteBatch(ctx context.Context, batch service.MessageBatch) error {
	parts := out.to.parts(batch)
	failed := make([]error, len(batch))
	atATime(togetherMost, len(parts), func(p int) {
		var err error
		for _, i := range parts[p] {
			if err == nil {
				err = out.to.deliver(ctx, &out.line, batch, i)
			}
			failed[i] = err
		}
	})
	var all *service.BatchError
	for i, err := range failed {
		if err == nil {
			continue
		}
		if all == nil {
			all = service.NewBatchError(batch, err)
		}
		all.Failed(i, err)
	}
	if all != nil {
		return all
	}
	return nil
}

// Close ends the connection.
func (out *output) Close(context.Context) error { return out.line.close() }
