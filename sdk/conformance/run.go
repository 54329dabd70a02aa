package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Skill is the id of the skill that a device under test serves.
const Skill = "conformance"

// defaultPatience bounds every wait unless the options say otherwise.
const defaultPatience = 30 * time.Second

// Options say what is tested, and how.
type Options struct {
	// Command is the device: a program and its arguments.
	Command []string
	// Dir is the folder in which it runs, the current one by default. Env is added to
	// the environment of this process.
	Dir string
	Env []string
	// Only are names of clauses, or beginnings of names, to run; none runs all.
	Only []string
	// Patience bounds every wait for the device, 30 s by default. A device
	// that does what it should is never waited for so long.
	Patience time.Duration
	// CheckParams names the fault of the params of a command that the
	// device sends; nil accepts all.
	CheckParams func(command string, params json.RawMessage) error
	// Output gets what the device prints; nil drops it.
	Output io.Writer
	// Progress hears of every clause as it ends; nil hears nothing.
	Progress func(Result)
}

// A clause is one statement of the protocol and the conversation that holds a
// device to it.
type clause struct {
	name   string
	says   string // what the protocol asks for
	where  string // the section that asks for it
	needs  string // a capability that not every device has, "" for none
	fresh  bool   // wants a device of its own, as it ends it
	begins bool   // starts that device itself
	run    func(ctx context.Context, s *stage) error
}

// clauses are all of them, in the order in which they run.
func clauses() []clause {
	return slices.Concat(registrationClauses(), callClauses(), eventClauses(), cancelClauses(), recallClauses(),
		garbageClauses(), presenceClauses(), connectionClauses(), callerClauses(), credentialClauses(), restartClauses())
}

// errSkip says why a clause does not concern a device.
type errSkip struct{ why string }

func (e *errSkip) Error() string { return e.why }

func skip(format string, args ...any) error { return &errSkip{fmt.Sprintf(format, args...)} }

// Run holds a device to every clause. The error is one of the test itself: a
// program that cannot be started, an end of ctx, no clause of the names. What
// the device does wrong is in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("there is no device to test: name its program")
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	chosen := choose(clauses(), o.Only)
	if len(chosen) == 0 {
		return nil, fmt.Errorf("there is no clause %s", strings.Join(o.Only, ", "))
	}
	s := &stage{options: o}
	defer s.close()
	report := &Report{}
	for _, c := range chosen {
		began := time.Now()
		err := s.hold(ctx, c)
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		var unusable *startError
		if errors.As(err, &unusable) {
			return report, unusable
		}
		result := newResult(c, err, time.Since(began))
		report.Results = append(report.Results, result)
		if o.Progress != nil {
			o.Progress(result)
		}
	}
	return report, nil
}

func choose(all []clause, only []string) []clause {
	if len(only) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(c clause) bool {
		return !slices.ContainsFunc(only, func(name string) bool { return strings.HasPrefix(c.name, name) })
	})
}
