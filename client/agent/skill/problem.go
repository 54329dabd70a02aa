package skill

import (
	"errors"
	"fmt"
)

// maxProblems is the number of faults of one file that are reported at once.
const maxProblems = 10

// A Problem is one thing that is wrong with a file of a skill.
type Problem struct {
	File   string // as given to [Parse], "unit-converter/skill.yaml"
	Line   int    // counted from 1; 0 when the problem has no place in the file
	Path   string // of the field, "spec.capabilities[0].id"; may be empty
	Reason string
}

// Error is the problem as editors like to jump to it,
// "unit-converter/skill.yaml:7: spec.type: must be system or custom".
func (p *Problem) Error() string {
	place := p.File
	if p.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, p.Line)
	}
	if p.Path != "" {
		return place + ": " + p.Path + ": " + p.Reason
	}
	return place + ": " + p.Reason
}

// Problems lists the problems an error of this package is made of.
func Problems(err error) []*Problem {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all := make([]*Problem, 0, maxProblems)
		for _, e := range joined.Unwrap() {
			all = append(all, Problems(e)...)
		}
		return all
	}
	var p *Problem
	if errors.As(err, &p) {
		return []*Problem{p}
	}
	return nil
}
