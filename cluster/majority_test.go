package cluster

import (
	"slices"
	"testing"
)

func TestLackingAreThoseWhoDoNotStay(t *testing.T) {
	list := []string{"a:1", "b:1", "c:1"}
	for name, test := range map[string]struct {
		members []Member
		want    []string
	}{
		"nobody":          {nil, list},
		"all":             {[]Member{{Keeps: "a:1"}, {Keeps: "b:1", State: Standby}, {Keeps: "c:1", State: Serving}}, nil},
		"one drains":      {[]Member{{Keeps: "a:1", State: Draining}, {Keeps: "b:1"}, {Keeps: "c:1"}}, []string{"a:1"}},
		"who keeps none":  {[]Member{{Keeps: "a:1"}, {}, {Keeps: "d:1"}}, []string{"b:1", "c:1"}},
		"moved elsewhere": {[]Member{{Keeps: "a:1"}, {Keeps: "b:2"}, {Keeps: "c:1"}}, []string{"b:1"}},
	} {
		if got := Lacking(list, test.members); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestBridgesAgreeOnWhoKeepsTheState(t *testing.T) {
	one := Settings{Join: []string{"a:1", "b:1", "c:1"}, Listen: "0.0.0.0:1", Advertise: "b:1"}
	other := Settings{Join: []string{"c:1", "a:1", "b:1"}, Listen: "d:1"}
	if one.Agreement()["cluster.join"] != other.Agreement()["cluster.join"] {
		t.Errorf("%v and %v differ", one.Agreement(), other.Agreement())
	}
	if got := one.Keeps(); got != "b:1" {
		t.Errorf("keeps a copy as %q", got)
	}
	if got := other.Keeps(); got != "" {
		t.Errorf("a bridge that is not in the list keeps a copy as %q", got)
	}
	if alone := (&Settings{}).Agreement(); len(alone) > 0 {
		t.Errorf("a bridge without a list must agree on %v", alone)
	}
}
