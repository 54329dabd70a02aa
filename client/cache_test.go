package client

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func newTestCache() (*cache, *time.Time) {
	now := time.Unix(0, 0)
	c := newCache()
	c.now = func() time.Time { return now }
	c.resume()
	return c, &now
}

func (x *cache) has(command string) bool {
	_, _, ok := x.get(command, nil)
	return ok
}

func (x *cache) fill(commands ...string) {
	for _, command := range commands {
		_, version, _ := x.get(command, nil)
		x.put(command, nil, []byte("{}"), version)
	}
}

func TestAnswersLiveAsLongAsTheirFamilySays(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]time.Duration{
		"skill.discover": 30 * time.Minute,
		"policy.list":    10 * time.Minute,
		"resource.list":  time.Minute,
	} {
		c, now := newTestCache()
		c.fill(command)
		*now = now.Add(want)
		if !c.has(command) {
			t.Errorf("%s is gone before %v", command, want)
		}
		if *now = now.Add(1); c.has(command) {
			t.Errorf("%s is there after %v", command, want)
		}
	}
	for _, command := range []string{"skill.invoke", "skill.register", "agent.heartbeat", "task.get"} {
		if lifetime(command) != 0 {
			t.Errorf("%s is kept", command)
		}
	}
}

func TestChangeDropsWhatItConcerns(t *testing.T) {
	t.Parallel()
	all := []string{"skill.discover", "agent.list", "resource.list", "policy.list"}
	for family, dropped := range map[string][]string{
		"skill":    {"skill.discover", "agent.list"},
		"agent":    {"skill.discover", "agent.list"},
		"resource": {"resource.list"},
		"security": {"policy.list"},
		"batch":    all,
		"scene":    {},
	} {
		c, _ := newTestCache()
		c.fill(all...)
		c.drop(family)
		left := 0
		for _, command := range all {
			if c.has(command) {
				left++
			}
		}
		for _, command := range dropped {
			if c.has(command) {
				t.Errorf("%s survives a change of %s", command, family)
			}
		}
		if left != len(all)-len(dropped) {
			t.Errorf("%d answers survive a change of %s", left, family)
		}
	}
}

func TestAnswerToAnOldQuestionIsNotKept(t *testing.T) {
	t.Parallel()
	c, _ := newTestCache()
	_, version, _ := c.get("skill.discover", nil)
	c.drop("skill") // while the question is under way
	c.put("skill.discover", nil, []byte("{}"), version)
	if c.has("skill.discover") {
		t.Error("it is kept")
	}
}

func TestNothingIsKeptWhileEventsMayBeMissed(t *testing.T) {
	t.Parallel()
	c, _ := newTestCache()
	c.fill("skill.discover")
	c.suspend()
	c.fill("skill.discover")
	if c.has("skill.discover") {
		t.Error("it is kept without a connection")
	}
	c.resume()
	if c.has("skill.discover") {
		t.Error("it survived")
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c, _ := newTestCache()
	for i := range 10 * maxCached {
		params := []byte{byte(i), byte(i >> 8)}
		_, version, _ := c.get("skill.discover", params)
		c.put("skill.discover", params, nil, version)
	}
	if len(c.entries) > maxCached {
		t.Errorf("%d entries", len(c.entries))
	}
}

func TestBackoffGrowsToItsLimit(t *testing.T) {
	t.Parallel()
	for attempt, ceiling := range map[int]time.Duration{
		0: firstBackoff, 1: firstBackoff, 2: 2 * firstBackoff, 3: 4 * firstBackoff, 10: maxBackoff, 1000: maxBackoff,
	} {
		for range 100 {
			if d := backoff(attempt, maxBackoff); d < ceiling/2 || d > ceiling {
				t.Fatalf("attempt %d: %v, ceiling %v", attempt, d, ceiling)
			}
		}
	}
}

func TestRetryAfterTakesWhatItGets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		details any
		want    time.Duration
	}{
		{int64(20), 20 * time.Millisecond},
		{20.9, 20 * time.Millisecond},
		{"20", defaultRetryAfter},
		{int64(-1), defaultRetryAfter},
		{int64(1 << 60), protocol.MaxTimeout},
		{nil, defaultRetryAfter},
	} {
		if got := retryAfter(protocol.Errorf(protocol.Busy, "no").With("retry_after_ms", test.details)); got != test.want {
			t.Errorf("%v: %v, want %v", test.details, got, test.want)
		}
	}
}
