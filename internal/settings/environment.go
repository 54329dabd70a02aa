package settings

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/commands/schema"
)

// envPrefix begins the names of all variables of AI Bridge.
const envPrefix = "AIBRIDGE_"

// otherVariables are the variables that are no settings: of the configuration, the
// command line, the MCP script, and those passed to scripts of skills.
var otherVariables = []string{
	"CONFIG", "LLM_API_KEY", "PKI_PASSPHRASE",
	"URL", "DATA", "ROOT", "CA", "CERT", "KEY", "TOKEN", "API_KEY", "MCP_URL", "BIN", "TIMEOUT",
	"SKILL_ID", "SKILL_VERSION", "SKILL_DIR", "CAPABILITY_ID", "AGENT_ID", "CALL_ID", "TRACE_ID", "DEADLINE_MS",
}

// foreignVariables are set by others: Kubernetes sets some for a Service that is
// called aibridge, agents pass parameters to scripts of skills in some, and
// aibridge bench uses some for its processes.
var foreignVariables = regexp.MustCompile(`^(([A-Z0-9_]+_)?SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|([A-Z0-9_]+_)?PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?|PARAM_.+|BENCH_.+)$`)

// CheckEnvironment refuses variables AIBRIDGE_… that are probably misspelt: they
// are unknown, and similar to a known name. With strict it refuses all unknown
// ones. Variables that texts name, such as the file with the configuration, are
// known.
func CheckEnvironment(config any, environ []string, strict bool, texts ...[]byte) error {
	known := make(map[string]bool)
	for _, s := range leaves(config) {
		for _, key := range s.keys() {
			known[strings.TrimPrefix(envOf(key), envPrefix)] = true
		}
	}
	for _, name := range otherVariables {
		known[name] = true
	}
	var errs []error
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		named := func(text []byte) bool { return bytes.Contains(text, []byte(name)) }
		if !ours || known[rest] || foreignVariables.MatchString(rest) || slices.ContainsFunc(texts, named) {
			continue
		}
		near, ok := schema.Nearest(strings.ToLower(rest), lower(maps.Keys(known)))
		switch {
		case ok:
			errs = append(errs, fmt.Errorf("the variable %s means nothing; did you mean %s%s?", name, envPrefix, strings.ToUpper(near)))
		case strict:
			errs = append(errs, fmt.Errorf("the variable %s means nothing: no setting has this name, and the configuration does not mention it", name))
		}
	}
	return errors.Join(errs...)
}

// lower yields texts in lower case.
func lower(texts iter.Seq[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text := range texts {
			if !yield(strings.ToLower(text)) {
				return
			}
		}
	}
}
