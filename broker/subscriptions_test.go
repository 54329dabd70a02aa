package broker

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestSubscriptionsAreFoundByFilter holds the subscriptions of a session, few and many,
// to a map.
func TestSubscriptionsAreFoundByFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var subs subscriptions
		want := map[string]*subscription{}
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			filter := fmt.Sprint(rapid.IntRange(0, 2*mostFew).Draw(t, "filter"))
			if rapid.Bool().Draw(t, "remove") {
				subs.remove(filter)
				delete(want, filter)
			} else {
				sub := &subscription{filter: filter}
				subs.set(sub)
				want[filter] = sub
			}
			if subs.get(filter) != want[filter] {
				t.Fatalf("%s is %v, not %v", filter, subs.get(filter), want[filter])
			}
			got := map[string]*subscription{}
			for sub := range subs.all() {
				got[sub.filter] = sub
			}
			if !maps.Equal(got, want) || subs.len() != len(want) {
				t.Fatalf("there are %v, %d of them, not %v", got, subs.len(), want)
			}
		}
	})
}
