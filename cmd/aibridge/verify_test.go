package main

import (
	"encoding/json"
	"testing"
)

func TestPromisesAreTriedBesideABridgeThatRuns(t *testing.T) {
	bridge := startBinary(t, t.TempDir())
	out, stderr, code := run(t, bridge, "verify", "--json", "--all")
	var found struct {
		Promises []struct{ Promise, State, What string }
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("exit code %d: %s%s", code, out, stderr)
	}
	for _, p := range found.Promises {
		if p.State != "kept" {
			t.Errorf("%s is %s: %s", p.Promise, p.State, p.What)
		}
	}
	if code != 0 || len(found.Promises) != 10 {
		t.Errorf("exit code %d after %d promises: %s", code, len(found.Promises), stderr)
	}
}
