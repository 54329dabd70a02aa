package bridge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// takenOverPause is the time before a pipeline whose session another one has taken
// over takes it back.
const takenOverPause = 30 * time.Second

// topics is the input of messages: a consumer of the SDK that runs while the input is
// connected, and hands its batches to the pipeline.
type topics struct {
	at       address
	families []string // of events, instead of filters
	consumer client.Consumer
	batches  chan handed

	mu      sync.Mutex
	running *consuming // nil while not connected
}

// A consuming is one run of the consumer.
type consuming struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when the consumer has ended
	err    error         // why, from then on
}

// A handed is a batch that was given to the pipeline, with the channel for its outcome.
type handed struct {
	messages []client.Message
	done     chan error
}

// Connect runs the consumer, and returns when its subscriptions stand.
func (in *topics) Connect(ctx context.Context) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.running != nil {
		select {
		case <-in.running.ended:
			in.running = nil
		default:
			return nil
		}
	}
	what := in.consumer
	if len(in.families) > 0 {
		var err error
		if what.Filters, err = in.eventFilters(ctx); err != nil {
			return err
		}
	}
	options, err := in.at.options()
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	what.Ready, what.Handle = sync.OnceFunc(func() { close(ready) }), in.handle
	run := &consuming{ended: make(chan struct{})}
	var living context.Context
	living, run.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(run.ended)
		run.err = client.Consume(living, in.at.url, what, append(options, client.WithLogger(in.at.logger()))...)
	}()
	select {
	case <-ready:
		in.running = run
		return nil
	case <-run.ended:
		run.cancel()
		return run.failed()
	case <-ctx.Done():
		run.cancel()
		<-run.ended
		return ctx.Err()
	}
}

// failed is the reason why a consumer ended, with the pause before it is worth another try.
func (run *consuming) failed() error {
	if protocol.CodeOf(run.err) == protocol.InvalidState {
		return service.NewErrBackOff(run.err, takenOverPause)
	}
	return run.err
}

// eventFilters asks the bridge for the first level of its topics.
func (in *topics) eventFilters(ctx context.Context) ([]string, error) {
	c, err := in.at.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	var filters []string
	for _, family := range in.families {
		filters = append(filters, c.Topics().Event(family))
	}
	return filters, nil
}

// handle gives a batch to the pipeline, and waits for its outcome.
func (in *topics) handle(ctx context.Context, messages []client.Message) error {
	h := handed{messages, make(chan error, 1)}
	select {
	case in.batches <- h:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-h.done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-h.done: // delivered, at the last moment
		return err
	default:
		return ctx.Err()
	}
}

// ReadBatch waits for a batch.
func (in *topics) ReadBatch(ctx context.Context) (service.MessageBatch, service.AckFunc, error) {
	in.mu.Lock()
	run := in.running
	in.mu.Unlock()
	if run == nil {
		return nil, nil, service.ErrNotConnected
	}
	select {
	case h := <-in.batches:
		batch := make(service.MessageBatch, len(h.messages))
		for i := range h.messages {
			batch[i] = messageOf(&h.messages[i])
		}
		return batch, func(_ context.Context, err error) error {
			select {
			case h.done <- err:
			default: // said before
			}
			return nil
		}, nil
	case <-run.ended:
		in.at.log.Errorf("the bridge takes the input off: %v", run.err)
		return nil, nil, service.ErrNotConnected
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// Close ends the consumer. Its session stays.
func (in *topics) Close(ctx context.Context) error {
	in.mu.Lock()
	run := in.running
	in.running = nil
	in.mu.Unlock()
	if run == nil {
		return nil
	}
	run.cancel()
	select {
	case <-run.ended:
		return nil
	case <-ctx.Done():
		return errors.New("the connection to the bridge does not end")
	}
}
