package script

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/client/agent/skill"
)

// The limits of parameters as environment variables. Parameters beyond them are
// on standard input only.
const (
	maxVariables = 100
	maxVariable  = 4 << 10  // bytes of one value
	maxVarsSize  = 64 << 10 // bytes of all of them
	maxVarName   = 64
)

const fallbackPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// baseEnv is the environment of every script: the variables that interpreters need,
// and those that the operator lists.
func baseEnv(lookup func(string) (string, bool), pass []string) []string {
	env := []string{}
	set := func(name, fallback string) {
		value, ok := lookup(name)
		if !ok || value == "" {
			value = fallback
		}
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	set("PATH", fallbackPath)
	set("LANG", "C.UTF-8")
	for _, name := range []string{"HOME", "TMPDIR", "TZ"} {
		set(name, "")
	}
	for _, name := range pass {
		if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			set(name, "")
		}
	}
	return env
}

// environment returns the environment of one run.
func (r *Runner) environment(job *Job, capability *skill.Capability, deadline time.Time) []string {
	env := slices.Clone(r.base)
	set := func(name, value string) {
		if !strings.Contains(value, "\x00") {
			env = append(env, "AIBRIDGE_"+name+"="+value)
		}
	}
	set("SKILL_ID", string(job.Skill.ID))
	set("SKILL_VERSION", job.Skill.Version)
	set("SKILL_DIR", job.Skill.Dir)
	set("CAPABILITY_ID", string(job.Capability))
	set("AGENT_ID", string(job.AgentID))
	set("CALL_ID", job.CallID)
	set("TRACE_ID", job.TraceID)
	set("DEADLINE_MS", strconv.FormatInt(deadline.UnixMilli(), 10))
	if job.Traceparent != "" {
		env = append(env, "TRACEPARENT="+job.Traceparent)
	}
	for _, p := range variables(job.Params, capability.Params.Properties()) {
		set("PARAM_"+p.name, p.value)
	}
	return env
}

type variable struct{ name, value string }

// variables are the scalars among the parameters, under names a shell can use. A declared
// parameter always gets its name. Others get one if no other parameter wants it, so that
// none can take a declared parameter's place.
func variables(params json.RawMessage, declared []string) []variable {
	var values map[string]json.RawMessage
	if json.Unmarshal(params, &values) != nil {
		return nil
	}
	claims := make(map[string]int, len(values)) // on a variable's name
	for name := range values {
		claims[variableName(name)]++
	}
	size := 0
	var vars []variable
	taken := map[string]bool{}
	add := func(name string) {
		value, ok := scalar(values[name])
		v := variable{variableName(name), value}
		if !ok || v.name == "" || taken[v.name] || len(vars) == maxVariables || size+len(v.name)+len(value) > maxVarsSize {
			return
		}
		size += len(v.name) + len(value)
		taken[v.name] = true
		vars = append(vars, v)
	}
	reserved := map[string]bool{}
	for _, name := range declared {
		reserved[variableName(name)] = true
		add(name)
	}
	others := make([]string, 0, len(values))
	for name := range values {
		if v := variableName(name); claims[v] == 1 && !reserved[v] {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	for _, name := range others {
		add(name)
	}
	return vars
}

// variableName is a parameter's name in capitals with an underscore for every
// byte that is no letter or digit, or "" if it is too long or nothing is left.
func variableName(name string) string {
	if len(name) > maxVarName {
		return ""
	}
	named := false
	upper := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			named = true
			return c - 'a' + 'A'
		case c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
			named = true
			return c
		}
		return '_'
	}, name)
	if !named {
		return ""
	}
	return upper
}

// scalar is a string, number or boolean as text.
func scalar(value json.RawMessage) (string, bool) {
	value = bytes.TrimSpace(value)
	if len(value) == 0 || len(value) > maxVariable {
		return "", false
	}
	switch value[0] {
	case '{', '[', 'n':
		return "", false
	case '"':
		var s string
		if json.Unmarshal(value, &s) != nil || strings.Contains(s, "\x00") {
			return "", false
		}
		return s, true
	}
	return string(value), true
}
