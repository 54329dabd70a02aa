package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/twmb/franz-go/pkg/kgo"
)

func outputSpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Categories("Services").
		Summary("Produces records of Kafka.").
		Description("A record counts as delivered when all replicas in sync have it. Records of one key keep their order within a batch, and among batches with `max_in_flight: 1`. Of a batch only the records are tried again that failed.").
		Fields(connectionFields()...).
		Fields(
			service.NewInterpolatedStringField("topic"),
			service.NewInterpolatedStringField("key").Description("Records with one key go into one partition.").Optional(),
			service.NewMetadataFilterField("metadata").Description("Metadata that become headers.").Optional(),
			service.NewIntField("max_in_flight").Description("Batches that are under way at a time.").Default(1).
				LintRule(`root = if this < 1 || this > 1000 { ["must be 1 to 1000"] }`),
			service.NewBatchPolicyField("batching"),
		)
}

func init() {
	err := service.RegisterBatchOutput("kafka", outputSpec(), func(conf *service.ParsedConfig, mgr *service.Resources) (service.BatchOutput, service.BatchPolicy, int, error) {
		return newOutput(conf, mgr)
	})
	if err != nil {
		panic(err)
	}
}

type output struct {
	options    []kgo.Opt
	topic, key *service.InterpolatedString // key may be nil
	metadata   *service.MetadataFilter     // or nil
	client     *kgo.Client                 // nil before Connect
}

func newOutput(conf *service.ParsedConfig, mgr *service.Resources) (out *output, policy service.BatchPolicy, inFlight int, err error) {
	out = &output{}
	if out.options, err = options(conf); err != nil {
		return nil, policy, 0, err
	}
	out.options = append(out.options, logTo(mgr.Logger()))
	if out.topic, err = conf.FieldInterpolatedString("topic"); err != nil {
		return nil, policy, 0, err
	}
	if conf.Contains("key") {
		if out.key, err = conf.FieldInterpolatedString("key"); err != nil {
			return nil, policy, 0, err
		}
	}
	if conf.Contains("metadata") {
		if out.metadata, err = conf.FieldMetadataFilter("metadata"); err != nil {
			return nil, policy, 0, err
		}
	}
	if inFlight, err = conf.FieldMaxInFlight(); err != nil {
		return nil, policy, 0, err
	}
	policy, err = conf.FieldBatchPolicy("batching")
	return out, policy, inFlight, err
}

// Connect waits for a broker.
func (out *output) Connect(ctx context.Context) error {
	if out.client == nil {
		c, err := kgo.NewClient(out.options...)
		if err != nil {
			return err
		}
		out.client = c
	}
	return out.client.Ping(ctx)
}

// WriteBatch produces a batch. Its error says which messages failed.
func (out *output) WriteBatch(ctx context.Context, batch service.MessageBatch) error {
	var all *service.BatchError
	fail := func(i int, err error) {
		if all == nil {
			all = service.NewBatchError(batch, err)
		}
		all.Failed(i, err)
	}
	var records []*kgo.Record
	index := make(map[*kgo.Record]int, len(batch))
	for i := range batch {
		r, err := out.record(batch, i)
		if err != nil {
			fail(i, err)
			continue
		}
		records, index[r] = append(records, r), i
	}
	for _, result := range out.client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			fail(index[result.Record], result.Err)
		}
	}
	if all != nil {
		return all
	}
	return nil
}

func (out *output) record(batch service.MessageBatch, i int) (r *kgo.Record, err error) {
	r = &kgo.Record{}
	if r.Topic, err = batch.TryInterpolatedString(i, out.topic); err != nil {
		return nil, err
	}
	if out.key != nil {
		if r.Key, err = batch.TryInterpolatedBytes(i, out.key); err != nil {
			return nil, err
		}
	}
	if out.metadata != nil {
		_ = out.metadata.Walk(batch[i], func(name, value string) error {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
			return nil
		})
		slices.SortFunc(r.Headers, func(a, b kgo.RecordHeader) int { return strings.Compare(a.Key, b.Key) })
	}
	r.Value, err = batch[i].AsBytes()
	return r, err
}

// Close closes the connections.
func (out *output) Close(context.Context) error {
	if out.client != nil {
		out.client.Close()
	}
	return nil
}
