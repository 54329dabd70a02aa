package commands

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

var (
	nameForm   = regexp.MustCompile(`^[a-z][a-z0-9]*(\.[a-z][a-z0-9-]*)+$`)
	actionForm = regexp.MustCompile(`^[a-z][a-z0-9-]*:[a-z][a-z0-9.-]*$`)
)

// check returns every fault of a declaration in one error.
func (c *Command) check() error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range append([]string{c.Name}, c.Aliases...) {
		if !nameForm.MatchString(name) || len(name) > protocol.MaxCommandLength {
			complain("the name %q is not family.verb", name)
		}
	}
	if strings.TrimSpace(c.Summary) == "" {
		complain("has no summary")
	}
	if !actionForm.MatchString(c.Action) {
		complain("the action %q is not family:verb", c.Action)
	}
	if c.Effect > Act {
		complain("has an unknown effect")
	}
	for _, code := range c.Errors {
		if !code.Known() {
			complain("the code %q is not one of the protocol", string(code))
		}
	}
	if c.err != nil {
		complain("%w", c.err)
	} else if c.Example != "" {
		if err := c.CheckParams([]byte(c.Example)); err != nil {
			complain("the example is not valid: %w", err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("command %s: %w", c.Name, errors.Join(errs...))
}
