package template

import (
	"errors"
	"strings"
	"testing"
)

// TestABudgetIsSpent has expressions whose work is known, over a text of 64 KiB.
func TestABudgetIsSpent(t *testing.T) {
	t.Parallel()
	long := Vars{"value": strings.Repeat("a,", MaxOutput/2)}
	for source, want := range map[string]int{
		"{{ 1 }}":                           1,
		"{{ 1 + 2 }}":                       3,
		"{{ value }}":                       1 + MaxOutput/bytesPerStep,
		"{{ value | upper }}":               2 * (1 + MaxOutput/bytesPerStep),
		"{{ value.split(',') | length }}":   1 + MaxOutput/bytesPerStep + 1 + 1 + (MaxOutput/2+1)/bytesPerStep + 1,
		"{{ value | round }}":               1 + MaxOutput/bytesPerStep + MaxOutput/bytesPerStep, // an error
		"{% if 1 < 2 %}x{% endif %}":        3 + 1,
		"{% set a = 'x' %}{{ a }}{{ a }}":   3,
		"{{ 1 if true else value | upper}}": 2 + 1, // the condition, the branch, and the whole
	} {
		parsed, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		b := NewBudget(MaxSteps)
		_, _ = parsed.ValueWithin(b, long)
		if got := MaxSteps - b.Left(); got != want {
			t.Errorf("%s takes %d steps, want %d", source, got, want)
		}
	}
}

func TestABudgetEndsEvaluations(t *testing.T) {
	t.Parallel()
	// Every part does as much as a template lets it.
	costly, err := Parse("{% set v = value %}" + strings.Repeat("{% set v = v | upper | lower %}", 250) + "{{ v }}")
	if err != nil {
		t.Fatal(err)
	}
	long := Vars{"value": strings.Repeat("x", MaxOutput)}
	if _, err := costly.Value(long); !errors.Is(err, errTooMuch) {
		t.Errorf("without a budget of its own: %v", err)
	}
	shared := NewBudget(3000)
	cheap := Must("{{ value }}")
	for range 2 {
		if _, err := cheap.ValueWithin(shared, long); err != nil {
			t.Error(err)
		}
	}
	if _, err := cheap.ValueWithin(shared, long); !errors.Is(err, errTooMuch) || shared.Left() != 0 {
		t.Errorf("%v, %d steps left", err, shared.Left())
	}
}
