package drill

import (
	"slices"
	"testing"
)

func TestABridgeChangesItsVersionAndKeepsItsFlags(t *testing.T) {
	o := &Options{Bridge: []string{"new", "serve"}, Earlier: []string{"env", "old", "serve"}}
	b := &bridgeNode{process: &process{argv: []string{"new", "serve", "--id", "b"}}}
	for range 2 {
		for _, want := range [][]string{{"env", "old", "serve", "--id", "b"}, {"new", "serve", "--id", "b"}} {
			if b.change(o); !slices.Equal(b.argv, want) {
				t.Errorf("it runs %q, not %q", b.argv, want)
			}
		}
	}
	o.Earlier = nil
	if b.change(o); b.argv[0] != "new" {
		t.Errorf("without another version it runs %q", b.argv)
	}
}
