package loop

import "testing"

func TestCallsAreAdmittedUpToTheLimitsOfARoundAndOfAll(t *testing.T) {
	for name, test := range map[string]struct {
		limits      Limits
		made, calls int
		run         int
		beyond      string
	}{
		"all":                   {Limits{Calls: 5, AtOnce: 3}, 2, 3, 3, ""},
		"no limits":             {Limits{Calls: -1}, 1000, 1000, 1000, ""},
		"too many in a round":   {Limits{Calls: 50, AtOnce: 3}, 0, 4, 3, "only 3 calls of one answer are executed"},
		"too many in all":       {Limits{Calls: 5, AtOnce: 3}, 4, 2, 1, "the limit of 5 calls is reached"},
		"none left":             {Limits{Calls: 5}, 5, 1, 0, "the limit of 5 calls is reached"},
		"more made than may be": {Limits{Calls: 5}, 7, 1, 0, "the limit of 5 calls is reached"},
	} {
		if run, beyond := test.limits.WithDefaults().Admit(test.made, test.calls); run != test.run || beyond != test.beyond {
			t.Errorf("%s: %d run, beyond %q", name, run, beyond)
		}
	}
}
