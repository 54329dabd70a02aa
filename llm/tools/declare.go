package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of a declaration.
const (
	maxName        = 256  // characters
	maxDescription = 4096 // characters, of a trusted tool
	maxForeign     = 512  // characters, of a text from a skill or a server
	maxParameters  = 256
	maxEnum        = 1000
)

// Check returns the fault of a declaration as an error, and warnings of its oddities.
func (d *Declaration) Check() (warnings []string, err error) {
	if reason := checkName(d.Name, maxName); reason != "" {
		return nil, fmt.Errorf("tool %.60q: the name %s", d.Name, reason)
	}
	if !d.Untrusted && utf8.RuneCountInString(d.Description) > maxDescription {
		return nil, fmt.Errorf("tool %q: the description has more than %d characters", d.Name, maxDescription)
	}
	switch {
	case d.Risk != "" && d.Risk != RiskAsk && d.Risk != RiskDeny:
		return nil, fmt.Errorf("tool %q: the risk must be empty, %s or %s", d.Name, RiskAsk, RiskDeny)
	case len(d.Parameters) > 0 && len(d.Schema) > 0:
		return nil, fmt.Errorf("tool %q: parameters and a schema exclude each other", d.Name)
	case len(d.Parameters) > maxParameters:
		return nil, fmt.Errorf("tool %q: more than %d parameters", d.Name, maxParameters)
	case d.Timeout < 0:
		return nil, fmt.Errorf("tool %q: the timeout is negative", d.Name)
	case len(d.Output) > maxSchema || len(d.Output) > 0 && !json.Valid(d.Output):
		return nil, fmt.Errorf("tool %q: the schema of the result is not JSON, or too large", d.Name)
	}
	seen := make(map[string]string, len(d.Parameters))
	for i := range d.Parameters {
		p := &d.Parameters[i]
		if other, twice := seen[strings.ToLower(p.Name)]; twice {
			return nil, fmt.Errorf("tool %q: the parameter %q is there already, as %q", d.Name, p.Name, other)
		}
		seen[strings.ToLower(p.Name)] = p.Name
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("tool %q: %w", d.Name, err)
		}
		if (p.Cardinality == Single || p.Cardinality == "") && !p.Required {
			warnings = append(warnings, fmt.Sprintf("tool %q: the parameter %q is Single and not required; Optional says that better", d.Name, p.Name))
		}
	}
	return warnings, nil
}

// checkName returns the fault of a name, "" for none.
func checkName(name string, longest int) string {
	switch {
	case name == "":
		return "is empty"
	case utf8.RuneCountInString(name) > longest:
		return fmt.Sprintf("has more than %d characters", longest)
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.TrimSpace(name) != name:
		return "begins or ends with white space"
	case strings.ContainsFunc(name, invisible):
		return "has characters that cannot be seen"
	case strings.Contains(name, "*"):
		return "may not have a *"
	}
	return ""
}

// invisible reports whether a character is invisible, or changes the display of others.
func invisible(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r)
}

var (
	kinds = []Kind{
		String, Boolean, Integer, Number, JSONObject, JSONArray, Timestamp, URI, EnumToken, AttachmentReference,
	}
	cardinalities = []Cardinality{"", Single, Optional, List, Map}
	withEnum      = []Kind{String, EnumToken, Integer}
)

func (p *Parameter) check() error {
	if reason := checkName(p.Name, maxName); reason != "" && reason != "may not have a *" {
		return fmt.Errorf("the parameter %.60q: the name %s", p.Name, reason)
	}
	switch {
	case !slices.Contains(kinds, p.Kind):
		return fmt.Errorf("the parameter %q: there is no kind %.40q", p.Name, p.Kind)
	case !slices.Contains(cardinalities, p.Cardinality):
		return fmt.Errorf("the parameter %q: there is no cardinality %.40q", p.Name, p.Cardinality)
	case p.Kind == EnumToken && len(p.Enum) == 0:
		return fmt.Errorf("the parameter %q: an EnumToken needs an enum", p.Name)
	case len(p.Enum) > maxEnum:
		return fmt.Errorf("the parameter %q: more than %d values", p.Name, maxEnum)
	case len(p.Enum) > 0 && !slices.Contains(withEnum, p.Kind):
		return fmt.Errorf("the parameter %q: a %s has no enum", p.Name, p.Kind)
	case p.Kind == Integer && slices.ContainsFunc(p.Enum, notInteger):
		return fmt.Errorf("the parameter %q: the values of an Integer must be integers", p.Name)
	case len(p.Example) > 0 && !json.Valid(p.Example):
		return fmt.Errorf("the parameter %q: the example is not JSON", p.Name)
	}
	return nil
}

// notInteger reports whether a text is not an integer as JSON writes it.
func notInteger(text string) bool {
	i, err := strconv.ParseInt(text, 10, 64)
	return err != nil || strconv.FormatInt(i, 10) != text
}
