package exclusive

import (
	"testing"

	"github.com/aibridge/aibridge/cluster"
)

func TestWhichRecordsCount(t *testing.T) {
	lives := cluster.Node{ID: "a", Epoch: 2}
	alive := func(n cluster.Node) bool { return n == lives }
	for _, c := range []struct {
		what    string
		process cluster.Node
		owner   string // of the session, "" if it is not kept
		counts  bool
		ofA     bool // bridge a deletes it if its session does not have the topic there
	}{
		{"of a client that is connected", lives, "", true, true},
		{"of a client whose bridge is dead", cluster.Node{ID: "b", Epoch: 1}, "", false, false},
		{"of a client that an earlier run had", cluster.Node{ID: "a", Epoch: 1}, "", false, true},
		{"of a kept session where it was", lives, "a", true, true},
		{"of a kept session that an earlier run had", cluster.Node{ID: "a", Epoch: 1}, "a", true, true},
		{"of a kept session of a dead bridge", cluster.Node{ID: "b", Epoch: 1}, "b", true, false},
		{"of a kept session that has moved away, and whose client is not in yet", lives, "b", true, false},
		{"of a kept session that has come, and whose client is not in yet", cluster.Node{ID: "b", Epoch: 1}, "a", true, false},
	} {
		r := &Record{Process: c.process}
		if got := r.counts(c.owner, alive); got != c.counts {
			t.Errorf("a record %s counts: %v", c.what, got)
		}
		if got := r.isOf("a", c.owner); got != c.ofA {
			t.Errorf("a record %s is for a to delete: %v", c.what, got)
		}
	}
}

func TestTopicsOfTwoSpacesAreTwo(t *testing.T) {
	if keyOf("a", "b") == keyOf("b", "b") || keyOf("a", "b") != keyOf("a", "b") {
		t.Error("keys do not tell topics apart")
	}
}
