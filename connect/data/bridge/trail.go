package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/aibridge/aibridge/client"
)

// largestPage is the number of entries that the bridge gives in one answer at most.
const largestPage = 1000

// trail is the input of the audit trail. One page is under way at a time, so that the
// place that is kept has nothing undelivered before it.
type trail struct {
	line     line
	places   *service.Resources
	cache    string
	key      string
	start    bool           // begin with all there is
	filter   map[string]any // params of audit.query
	interval time.Duration

	free  chan struct{} // has an element while no page is under way
	place string        // the cursor after what was delivered last; guarded by free
	more  bool          // whether there is more at once; guarded by free
}

func newTrail(conf *service.ParsedConfig, at address, mgr *service.Resources, whole *service.ParsedConfig) (*trail, error) {
	in := &trail{line: line{at: at}, places: mgr, filter: make(map[string]any), free: make(chan struct{}, 1)}
	in.free <- struct{}{}
	var err error
	if in.cache, err = conf.FieldString("cache"); err != nil {
		return nil, err
	}
	if !mgr.HasCache(in.cache) {
		return nil, fmt.Errorf("audit.cache: there is no cache resource %q", in.cache)
	}
	if in.key, err = conf.FieldString("key"); err != nil {
		return nil, err
	}
	from, err := conf.FieldString("from")
	if err != nil {
		return nil, err
	}
	in.start = from == "start"
	event, err := conf.FieldString("event")
	if err != nil {
		return nil, err
	}
	if event != "" {
		in.filter["event"] = event
	}
	if in.filter["security"], err = conf.FieldBool("security"); err != nil {
		return nil, err
	}
	if in.interval, err = conf.FieldDuration("interval"); err != nil {
		return nil, err
	}
	if in.interval <= 0 {
		return nil, errors.New("audit.interval: must be positive")
	}
	most, err := whole.FieldInt("batch")
	in.filter["limit"] = min(most, largestPage)
	return in, err
}

// Connect finds the place where to go on.
func (in *trail) Connect(ctx context.Context) error {
	if _, err := in.line.client(ctx); err != nil {
		return err
	}
	select {
	case <-in.free:
		defer func() { in.free <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if in.place != "" {
		return nil
	}
	kept, err := in.kept(ctx)
	if err != nil || kept != "" || in.start {
		in.place, in.more = kept, true
		return err
	}
	now, err := in.ask(ctx, map[string]any{"limit": 1})
	if err != nil {
		return err
	}
	in.place = now.Follow
	return in.keep(ctx, now.Follow)
}

// kept is the place in the cache, empty if it has none.
func (in *trail) kept(ctx context.Context) (place string, err error) {
	access := in.places.AccessCache(ctx, in.cache, func(c service.Cache) {
		var value []byte
		value, err = c.Get(ctx, in.key)
		place = string(value)
	})
	if errors.Is(err, service.ErrKeyNotFound) {
		return "", access
	}
	return place, errors.Join(access, err)
}

func (in *trail) keep(ctx context.Context, place string) (err error) {
	access := in.places.AccessCache(ctx, in.cache, func(c service.Cache) { err = c.Set(ctx, in.key, []byte(place), nil) })
	return errors.Join(access, err)
}

// A page is an answer of audit.query.
type page struct {
	Entries []json.RawMessage `json:"entries"`
	Next    string            `json:"next_cursor"`
	Follow  string            `json:"follow_cursor"`
}

func (in *trail) ask(ctx context.Context, params map[string]any) (page, error) {
	c, err := in.line.client(ctx)
	if err != nil {
		return page{}, err
	}
	return client.Call[page](ctx, c, "audit.query", params)
}

// after asks for the entries after a place, or for all entries.
func (in *trail) after(ctx context.Context) (page, error) {
	params := make(map[string]any, len(in.filter)+1)
	for name, value := range in.filter {
		params[name] = value
	}
	if in.place != "" {
		params["cursor"] = in.place
	} else {
		params["after"] = 0
	}
	return in.ask(ctx, params)
}

// ReadBatch waits until the entries read before are delivered, and then for the next ones.
func (in *trail) ReadBatch(ctx context.Context) (service.MessageBatch, service.AckFunc, error) {
	select {
	case <-in.free:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	for {
		if err := in.wait(ctx); err != nil {
			in.free <- struct{}{}
			return nil, nil, err
		}
		found, err := in.after(ctx)
		if err != nil {
			in.more = false
			in.free <- struct{}{}
			return nil, nil, err
		}
		in.more = found.Next != ""
		if len(found.Entries) > 0 {
			return entries(found.Entries), in.delivered(found.Follow), nil
		}
		in.place = found.Follow
	}
}

// wait is the pause before the next question, unless there is more at once.
func (in *trail) wait(ctx context.Context) error {
	if in.more {
		return nil
	}
	select {
	case <-time.After(in.interval):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// delivered notes that the entries before a place were, or lets them be asked for again.
func (in *trail) delivered(place string) service.AckFunc {
	return func(ctx context.Context, failed error) (err error) {
		if failed == nil {
			in.place = place
			err = in.keep(ctx, place)
		}
		in.free <- struct{}{}
		return err
	}
}

func entries(found []json.RawMessage) service.MessageBatch {
	batch := make(service.MessageBatch, len(found))
	for i, raw := range found {
		batch[i] = service.NewMessage(raw)
		var entry struct{ Event, Code string }
		if json.Unmarshal(raw, &entry) == nil {
			batch[i].MetaSetMut("aibridge_event", entry.Event)
			batch[i].MetaSetMut("aibridge_code", entry.Code)
		}
	}
	return batch
}

// Close ends the connection.
func (in *trail) Close(context.Context) error { return in.line.close() }
