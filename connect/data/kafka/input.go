package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/twmb/franz-go/pkg/kgo"
)

const inputDescription = `
The place of the group in a partition is noted when the pipeline has delivered a batch. One batch is under way at a time, so nothing before the place is undelivered, and nobody else gets its partitions meanwhile. After a lost connection or a killed pipeline records come again that were not noted: each comes at least once.

### Metadata

` + "```text" + `
- kafka_topic, kafka_partition, kafka_offset
- kafka_key            if there is one
- kafka_header_NAME    the last value of the header NAME
` + "```" + `
`

func inputSpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Categories("Services").
		Summary("Takes records of Kafka as a member of a consumer group, each at least once.").
		Description(inputDescription).
		Fields(connectionFields()...).
		Fields(
			service.NewStringListField("topics"),
			service.NewStringField("consumer_group"),
			service.NewStringEnumField("from", "start", "now").Description("Where to begin in a partition in which the group has no place.").Default("start"),
			service.NewIntField("batch").Description("Records at most in a batch.").Default(100).
				LintRule(`root = if this < 1 || this > 10000 { ["must be 1 to 10000"] }`),
			service.NewAutoRetryNacksToggleField().
				Description("Whether records that cannot be delivered are tried again one by one, for ever. Otherwise the pipeline begins anew behind the last place that was noted."),
		)
}

func init() {
	if err := service.RegisterBatchInput("kafka", inputSpec(), newInput); err != nil {
		panic(err)
	}
}

type input struct {
	options []kgo.Opt
	batch   int
	free    chan struct{} // has an element while no batch is under way
	client  *kgo.Client   // nil while not connected; guarded by free
}

func newInput(conf *service.ParsedConfig, mgr *service.Resources) (service.BatchInput, error) {
	opts, err := options(conf)
	if err != nil {
		return nil, err
	}
	topics, err := conf.FieldStringList("topics")
	if err != nil {
		return nil, err
	}
	if len(topics) == 0 {
		return nil, errors.New("topics: must not be empty")
	}
	group, err := conf.FieldString("consumer_group")
	if err != nil {
		return nil, err
	}
	if group == "" {
		return nil, errors.New("consumer_group: must not be empty")
	}
	from, err := conf.FieldString("from")
	if err != nil {
		return nil, err
	}
	begin := kgo.NewOffset().AtStart()
	if from == "now" {
		begin = kgo.NewOffset().AtEnd()
	}
	in := &input{free: make(chan struct{}, 1), options: append(opts, logTo(mgr.Logger()), kgo.ConsumeTopics(topics...),
		kgo.ConsumerGroup(group), kgo.ConsumeResetOffset(begin), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())}
	in.free <- struct{}{}
	if in.batch, err = conf.FieldInt("batch"); err != nil {
		return nil, err
	}
	if in.batch < 1 {
		return nil, fmt.Errorf("batch: must be 1 to 10000, is %d", in.batch)
	}
	return service.AutoRetryNacksBatchedToggled(conf, in)
}

// take waits until no batch is under way.
func (in *input) take(ctx context.Context) error {
	select {
	case <-in.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (in *input) give() { in.free <- struct{}{} }

// Connect waits for a broker.
func (in *input) Connect(ctx context.Context) error {
	if err := in.take(ctx); err != nil {
		return err
	}
	defer in.give()
	if in.client != nil {
		return nil
	}
	c, err := kgo.NewClient(in.options...)
	if err != nil {
		return err
	}
	if err := c.Ping(ctx); err != nil {
		c.CloseAllowingRebalance()
		return err
	}
	in.client = c
	return nil
}

// ReadBatch waits until the records read before are delivered, and then for the next ones.
func (in *input) ReadBatch(ctx context.Context) (service.MessageBatch, service.AckFunc, error) {
	if err := in.take(ctx); err != nil {
		return nil, nil, err
	}
	if in.client == nil {
		in.give()
		return nil, nil, service.ErrNotConnected
	}
	records, err := in.poll(ctx)
	if err != nil {
		in.client.AllowRebalance()
		in.give()
		return nil, nil, err
	}
	batch := make(service.MessageBatch, len(records))
	for i, r := range records {
		batch[i] = messageOf(r)
	}
	return batch, func(ctx context.Context, err error) error {
		defer in.give()
		if err == nil {
			err = in.client.CommitRecords(ctx, records...)
		}
		if err != nil { // a new member begins at the group's offset
			in.client.CloseAllowingRebalance()
			in.client = nil
			return err
		}
		in.client.AllowRebalance()
		return nil
	}, nil
}

// poll waits for some records.
func (in *input) poll(ctx context.Context) ([]*kgo.Record, error) {
	for {
		found := in.client.PollRecords(ctx, in.batch)
		if records := found.Records(); len(records) > 0 {
			return records, nil
		}
		if err := errors.Join(found.Err(), ctx.Err()); err != nil {
			return nil, err
		}
		in.client.AllowRebalance()
	}
}

func messageOf(r *kgo.Record) *service.Message {
	m := service.NewMessage(r.Value)
	for _, h := range r.Headers {
		m.MetaSetMut("kafka_header_"+h.Key, string(h.Value))
	}
	m.MetaSetMut("kafka_topic", r.Topic)
	m.MetaSetMut("kafka_partition", int64(r.Partition))
	m.MetaSetMut("kafka_offset", r.Offset)
	if r.Key != nil {
		m.MetaSetMut("kafka_key", string(r.Key))
	}
	return m
}

// Close leaves the group.
func (in *input) Close(ctx context.Context) error {
	if err := in.take(ctx); err != nil {
		return err
	}
	defer in.give()
	if in.client != nil {
		in.client.CloseAllowingRebalance()
		in.client = nil
	}
	return nil
}
