package broker

import "testing"

func TestFilterMatchesTopic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter, topic string
		want          bool
	}{
		{"a/b", "a/b", true},
		{"a/b", "a/c", false},
		{"a/b", "a", false},
		{"a", "a/b", false},
		{"a/+", "a/b", true},
		{"a/+", "a/", true},
		{"a/+", "a", false},
		{"a/+", "a/b/c", false},
		{"+/b", "a/b", true},
		{"+", "a", true},
		{"#", "a/b/c", true},
		{"a/#", "a", true},
		{"a/#", "a/b/c", true},
		{"a/#", "ab", false},
		{"+/#", "a", true},
		{"#", "$SYS/x", false},
		{"+/x", "$SYS/x", false},
		{"$SYS/#", "$SYS/x", true},
		{"/a", "/a", true},
		{"a", "/a", false},
	} {
		if got := matches(c.filter, c.topic); got != c.want {
			t.Errorf("matches(%q, %q) = %v, want %v", c.filter, c.topic, got, c.want)
		}
	}
}

func TestSharedFilterIsJudgedByWhatItSubscribesTo(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string]string{
		"$share/g/a/b": "a/b",
		"$share/g/#":   "#",
		"a/b":          "a/b",
		"$share/g":     "$share/g",
		"$SYS/x":       "$SYS/x",
	} {
		if got := unshared(filter); got != want {
			t.Errorf("unshared(%q) = %q, want %q", filter, got, want)
		}
	}
}
