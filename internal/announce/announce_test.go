package announce

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// told collects what a queue publishes until its context ends.
func told(ctx context.Context, q *Queue[string, string]) <-chan string {
	all := make(chan string, 1)
	go func() {
		var words []string
		q.Run(ctx, Publisher[string, string]{
			Event: func(e string) { words = append(words, e) },
			Value: func(k string) { words = append(words, "="+k) },
			Lost:  func(n int) { words = append(words, fmt.Sprintf("-%d", n)) },
		})
		all <- strings.Join(words, " ")
	}()
	return all
}

func TestEventsKeepTheirOrderAndValuesComeFirstAndOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := New[string, string](3)
		q.Event("early")
		q.Value("early")
		if q.Begun() {
			t.Error("it has begun by itself")
		}
		q.Begin()
		for _, word := range []string{"a", "b", "c", "d", "e"} {
			q.Event(word)
			q.Value("x")
		}
		q.Value("y")
		ctx, stop := context.WithCancel(t.Context())
		all := told(ctx, q)
		synctest.Wait()
		q.Event("f")
		q.Value("x")
		synctest.Wait()
		stop()
		if got := <-all; got != "-2 =x =y a b c =x f" {
			t.Errorf("published %s", got)
		}
	})
}

func TestWhatIsLeftIsPublishedAtTheEnd(t *testing.T) {
	q := New[string, string](1)
	q.Begin()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	q.Event("last")
	if got := <-told(ctx, q); got != "last" {
		t.Errorf("published %q", got)
	}
}

func TestLeftoversAreRetainedAndNotKnown(t *testing.T) {
	retained := map[string]protocol.SpaceID{"a": "one", "b": "one", "c": "one"}
	known := map[string]protocol.SpaceID{"a": "one", "b": "two", "d": "one"}
	var left []string
	for topic, space := range Leftovers(maps.All(retained), maps.All(known)) {
		left = append(left, topic+" "+string(space))
	}
	slices.Sort(left)
	if got := strings.Join(left, ", "); got != "b one, c one" {
		t.Errorf("left over: %s", got)
	}
}
