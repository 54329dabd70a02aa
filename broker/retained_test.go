package broker_test

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func TestRetainedTopicsAreListed(t *testing.T) {
	n := newNode(t)
	for _, m := range []protocol.Message{
		{Topic: "a/1", Payload: []byte("x"), Retain: true},
		{Topic: "a/2", Payload: []byte("x"), Retain: true, Expiry: time.Hour},
		{Topic: "a/3", Payload: []byte("x")},
		{Topic: "a/4", Payload: []byte("x"), Retain: true},
		{Topic: "a/4", Retain: true},
		{Topic: "b/1", Payload: []byte("x"), Retain: true},
	} {
		if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), m); err != nil {
			t.Fatal(err)
		}
	}
	for filter, want := range map[string][]string{
		"a/+": {"a/1", "a/2"}, "#": {"a/1", "a/2", "b/1"}, "b/1": {"b/1"}, "c/#": nil,
	} {
		if got := slices.Sorted(topics(n.Retained(filter))); !slices.Equal(got, want) {
			t.Errorf("%s covers %q, want %q", filter, got, want)
		}
	}
}

func topics(retained iter.Seq2[string, protocol.SpaceID]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for topic := range retained {
			if !yield(topic) {
				return
			}
		}
	}
}
