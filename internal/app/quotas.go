package app

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/aibridge/aibridge/cluster"
	"github.com/aibridge/aibridge/cluster/relay"
	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/quota"
)

const (
	// tellEvery is the time between a bridge's messages about the demand of parties.
	tellEvery = time.Second
	// forgetAfter is the time after which a bridge's message no longer counts.
	forgetAfter = 3 * time.Second
	// mostUses bounds the parties in one report of a bridge.
	mostUses = 4096
)

// sharedLimits holds the limits of callers that the bridges of a cluster count
// together: quotas, and wrong credentials.
type sharedLimits struct {
	quotas   *quota.Keeper
	throttle *security.Throttle
	shared   *relaying
	voice    *relay.Voice

	mu    sync.Mutex
	heard map[relay.Node]limitNews
	quiet bool // the last report was empty
}

// limitNews is a bridge's message to the others each second.
type limitNews struct {
	Uses   []quota.Use        `json:"uses,omitempty"`
	Failed []security.Failure `json:"failed,omitempty"`
	at     time.Time
}

// shareLimits has a bridge share limits with others, nil if it works alone. It is
// called before the relay starts.
func shareLimits(s *state, throttle *security.Throttle, shared *relaying) {
	if shared == nil {
		return
	}
	l := &sharedLimits{quotas: s.quotas, throttle: throttle, shared: shared, heard: make(map[relay.Node]limitNews)}
	l.voice = shared.Join(limitsPart, l)
	throttle.Shared()
	s.life.Run("limits of all bridges", l.run)
}

func (l *sharedLimits) run(ctx context.Context) error {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.turn(time.Now())
		case <-ctx.Done():
			return nil
		}
	}
}

// turn sends the demand here to the others, and takes up theirs.
func (l *sharedLimits) turn(now time.Time) {
	var others []cluster.Node
	for _, m := range l.shared.members.Members() {
		if m.ID != l.shared.members.Self().ID && takesRelayed(m) {
			others = append(others, m.Node)
		}
	}
	uses := l.quotas.Uses(len(others) + 1)
	news := limitNews{Uses: uses[:min(len(uses), mostUses)], Failed: l.throttle.News()}
	nothing := len(news.Uses) == 0 && len(news.Failed) == 0
	if !nothing || !l.quiet { // an empty report is sent once
		if body, err := json.Marshal(news); err == nil {
			for _, n := range others {
				l.voice.Say(relay.Node(n), body)
			}
		}
	}
	l.quiet = nothing
	l.quotas.Share(l.uses(now))
}

// uses is the recent demand at other bridges.
func (l *sharedLimits) uses(now time.Time) map[string][]quota.Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	uses := make(map[string][]quota.Use)
	for from, news := range l.heard {
		if now.Sub(news.at) > forgetAfter {
			delete(l.heard, from)
			continue
		}
		uses[from.ID] = news.Uses
	}
	return uses
}

// Said implements [relay.Part].
func (l *sharedLimits) Said(from relay.Node, body []byte) {
	var news limitNews
	if json.Unmarshal(body, &news) != nil {
		return
	}
	l.throttle.Heard(news.Failed)
	news.Failed, news.at = nil, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard[from] = news
}

// Gone implements [relay.Part].
func (l *sharedLimits) Gone(from relay.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.heard, from)
}

// Reports are transient: there are no statements that last.

func (l *sharedLimits) Everything(func([]byte)) {}
func (l *sharedLimits) Told(relay.Node, []byte) {}
func (l *sharedLimits) Began(relay.Node)        {}
func (l *sharedLimits) Ended(relay.Node)        {}

// quotaErrand is the errand that asks other bridges for the levels of quotas.
const quotaErrand = "quota.levels"

// newQuotaReadings makes the part that shows quotas.
func newQuotaReadings(s *state, keys *security.KeyIndex, shared *relaying) *security.QuotaService {
	options := security.QuotaOptions{BridgeID: s.config.ID, Keeper: s.quotas, Index: keys, Holds: s.clients.Holds}
	if shared != nil {
		options.Others = func(ctx context.Context, q security.QuotaQuestion) (map[string]security.QuotaLevels, []string) {
			return haveAll[security.QuotaLevels](ctx, shared, quotaErrand, q)
		}
	}
	readings := security.NewQuotaService(options)
	if shared != nil {
		shared.errands.does[quotaErrand] = func(_ context.Context, with json.RawMessage) (any, error) {
			var q security.QuotaQuestion
			if err := json.Unmarshal(with, &q); err != nil {
				return nil, err
			}
			return readings.Here(q), nil
		}
	}
	return readings
}
