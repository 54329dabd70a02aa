package mcp

import (
	"fmt"
	"strings"
	"testing"
)

func TestSuggestionsAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		s    Suggestion
		good bool
	}{
		"a name":              {Suggestion{Name: "home/kitchen lamp"}, true},
		"filters":             {Suggestion{Filters: []string{"#", "+", "home/#", "home/+/lamp"}}, true},
		"roles":               {Suggestion{Roles: map[string]string{"home/lamp": "viewer"}}, true},
		"nothing":             {Suggestion{Principal: "lamp"}, false},
		"a wildcard in names": {Suggestion{Name: "home/+"}, false},
		"an empty level":      {Suggestion{Name: "home//lamp"}, false},
		"a # on the way":      {Suggestion{Filters: []string{"home/#/lamp"}}, false},
		"half a level":        {Suggestion{Filters: []string{"home/a+"}}, false},
		"a role of a filter":  {Suggestion{Roles: map[string]string{"#": "owner"}}, false},
		"too many filters":    {Suggestion{Filters: strings.Split(strings.Repeat("a ", maxSuggested)+"a", " ")}, false},
	} {
		var faults []string
		checkSuggestions([]Suggestion{c.s}, func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) })
		if (len(faults) == 0) != c.good {
			t.Errorf("%s: %q", name, faults)
		}
	}
}
