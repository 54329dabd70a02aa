package a2a

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Defaults of requesters (A2A over MQTT 0.1, Requester Retry and Timeout Profile).
const (
	replyFirst  = 15 * time.Second
	streamIdle  = 30 * time.Second
	mostTries   = 3
	firstDelay  = time.Second
	mqttAddress = "mqtt:" // of agents on MQTT, before org/unit/agent
)

// A Bus reaches agents that are MQTT clients of the bridge.
type Bus interface {
	// Card is the card of an agent of a space, if it has published one.
	Card(space protocol.SpaceID, id string) (card BusCard, ok bool)
	// Ask sends a request to the agent of a publisher, and fails if the card is another
	// principal's by now. Replies come until done is called.
	Ask(space protocol.SpaceID, id string, publisher protocol.Party, body []byte, expiry time.Duration) (replies <-chan []byte, done func(), err error)
}

// A BusCard is the card of an agent on MQTT.
type BusCard struct {
	Text      json.RawMessage
	Publisher protocol.Party // the principal whose client has published it
	Online    bool           // the client is connected
}

// A busWay reaches an agent over MQTT.
type busWay struct {
	bus   Bus
	space protocol.SpaceID
	id    string
	owner protocol.Party // publisher of the approved card
	first time.Duration
	idle  time.Duration
	delay time.Duration
}

// busAgent is the id of an agent on MQTT by the URL of its card.
func busAgent(url string) (id string, ok bool) { return strings.CutPrefix(url, mqttAddress) }

func (w *busWay) call(ctx context.Context, operation string, params any) (result json.RawMessage, err error) {
	err = w.ask(ctx, operation, params, func(item json.RawMessage) bool { result = item; return false })
	if err == nil && result == nil {
		err = &lost{true, "its answer is none of JSON-RPC 2.0"}
	}
	return result, err
}

func (w *busWay) stream(ctx context.Context, operation string, params any, take func(json.RawMessage) bool) error {
	return w.ask(ctx, operation, params, take)
}

// ask sends a request, again until there is a first reply, and passes the replies to
// take.
func (w *busWay) ask(ctx context.Context, operation string, params any, take func(json.RawMessage) bool) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": protocol.NewID(), "method": operation, "params": json.RawMessage(text)})
	if err != nil {
		return err
	}
	sent := false
	for attempt := range mostTries {
		if attempt > 0 && !pause(ctx, w.backoff(attempt)) {
			return &lost{sent, "the call ended before there was an answer"}
		}
		replies, done, err := w.bus.Ask(w.space, w.id, w.owner, body, w.first+w.first/2)
		if err != nil {
			continue
		}
		sent = true
		heard, err := w.listen(ctx, replies, take)
		done()
		if heard || err != nil {
			return err
		}
	}
	if !sent {
		return &lost{false, "it does not listen"}
	}
	return &lost{true, "it did not answer"}
}

// backoff is the pause before an attempt: 1 s, 2 s, give or take a fifth.
func (w *busWay) backoff(attempt int) time.Duration {
	d := w.delay << (attempt - 1)
	return d - d/5 + rand.N(2*d/5+1)
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// listen hands in replies. It reports false if none came in time.
func (w *busWay) listen(ctx context.Context, replies <-chan []byte, take func(json.RawMessage) bool) (heard bool, err error) {
	late := time.NewTimer(w.first)
	defer late.Stop()
	for {
		select {
		case item := <-replies:
			result, err := unwrap(item, nil)
			if err != nil {
				return true, err
			}
			if heard = true; !take(result) {
				return true, nil
			}
			late.Reset(w.idle)
		case <-late.C:
			return heard, nil // a stream that stalls is followed by GetTask
		case <-ctx.Done():
			return heard, &lost{true, "the call ended before there was an answer"}
		}
	}
}
