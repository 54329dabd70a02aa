package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
)

// A spoken loop notes what happens. Its model makes calls in the first rounds.
type spoken struct {
	calling int              // rounds with calls
	errs    map[string]error // by step, such as "act 2"
	done    string           // the step after which the model is not asked again
	steps   []string
	round   int
}

func (s *spoken) step(name string) error {
	at := fmt.Sprint(name, " ", s.round)
	s.steps = append(s.steps, at)
	return s.errs[at]
}

func (s *spoken) Begin(context.Context, *Round) error {
	s.round++
	return s.step("begin")
}

func (s *spoken) Ask(context.Context, *model.Question) (*model.Reply, error) {
	if err := s.step("ask"); err != nil {
		return nil, err
	}
	return new(model.Reply), nil
}

func (s *spoken) Heard(_ context.Context, r *Round, err error) error {
	if kept := s.step("heard"); kept != nil || err != nil {
		return errors.Join(kept, err)
	}
	if s.round <= s.calling {
		r.Calls = []*chat.ToolCall{{ID: "1", Name: "f"}}
	}
	return nil
}

func (s *spoken) Act(context.Context, *Round) (bool, error) {
	err := s.step("act")
	return s.steps[len(s.steps)-1] != s.done, err
}

func TestALoopGoesOnUntilSomethingEndsIt(t *testing.T) {
	no := errors.New("no")
	for name, test := range map[string]struct {
		loop   spoken
		rounds int
		err    error
		steps  string
	}{
		"an answer without calls":      {spoken{calling: 1}, 0, nil, "begin 1, ask 1, heard 1, act 1, begin 2, ask 2, heard 2"},
		"the hooks":                    {spoken{calling: 9, done: "act 2"}, 0, nil, "begin 1, ask 1, heard 1, act 1, begin 2, ask 2, heard 2, act 2"},
		"the limit":                    {spoken{calling: 9}, 2, ErrRounds, "begin 1, ask 1, heard 1, act 1, begin 2, ask 2, heard 2, act 2"},
		"an answer in the last round":  {spoken{}, 1, nil, "begin 1, ask 1, heard 1"},
		"who may not go on":            {spoken{errs: map[string]error{"begin 1": no}}, 0, no, "begin 1"},
		"a model that fails is heard":  {spoken{errs: map[string]error{"ask 1": no}}, 0, no, "begin 1, ask 1, heard 1"},
		"a diary that cannot be kept":  {spoken{calling: 9, errs: map[string]error{"heard 1": no}}, 0, no, "begin 1, ask 1, heard 1"},
		"calls that cannot be made":    {spoken{calling: 9, errs: map[string]error{"act 1": no}}, 0, no, "begin 1, ask 1, heard 1, act 1"},
		"the hooks in the last round":  {spoken{calling: 9, done: "act 1"}, 1, nil, "begin 1, ask 1, heard 1, act 1"},
		"calls of a failed last round": {spoken{calling: 9, errs: map[string]error{"act 1": no}}, 1, no, "begin 1, ask 1, heard 1, act 1"},
	} {
		err := Drive(t.Context(), &test.loop, test.rounds)
		if !errors.Is(err, test.err) || strings.Join(test.loop.steps, ", ") != test.steps {
			t.Errorf("%s: %v after %q", name, err, test.loop.steps)
		}
	}
}

func TestFailuresAreCountedByToolAndArguments(t *testing.T) {
	var f Failures
	got := []int{
		f.See("a", []byte("{}"), true), f.See("a", []byte("{}"), true), f.See("a", []byte(`{"x":1}`), true), f.See("b", []byte("{}"), true),
		f.See("a", []byte("{}"), false), f.See("a", []byte("{}"), true),
	}
	if want := []int{1, 2, 1, 1, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
