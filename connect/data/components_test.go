package data

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"

	_ "github.com/aibridge/aibridge/connect/data/bridge"
	_ "github.com/aibridge/aibridge/connect/data/kafka"
	_ "github.com/aibridge/aibridge/connect/data/postgres"
)

var update = flag.Bool("update", false, "write the generated pages anew")

// TestTheComponentsAreDescribed keeps COMPONENTS.md what the components say of themselves.
func TestTheComponentsAreDescribed(t *testing.T) {
	var page bytes.Buffer
	page.WriteString("# The components\n\nGenerated from the components themselves: `go test . -run TestTheComponentsAreDescribed -update` writes it. [How they are used](../../docs/data.md).\n")
	all := service.GlobalEnvironment()
	describe := func(kind, name string, view *service.ConfigView, found bool) {
		if !found {
			t.Fatalf("there is no %s %s", kind, name)
		}
		d, err := view.TemplateData()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&page, "\n## %s `%s`\n\n%s\n\n%s\n\n```yaml\n%s```\n\n| field | type | default | meaning |\n|---|---|---|---|\n",
			kind, name, d.Summary, strings.TrimSpace(strings.ReplaceAll(d.Description, "\n### ", "\n### "+name+", "+strings.ToLower(kind)+": ")), d.AdvancedConfigYAML)
		for _, f := range d.Fields {
			if strings.HasPrefix(f.FullName, "tls.") || strings.HasPrefix(f.FullName, "batching.") { // the engine's own
				continue
			}
			kindOf, value := f.Type, ""
			if f.IsInterpolated {
				kindOf += ", interpolated"
			}
			if f.DefaultMarshalled != "" {
				value = "`" + f.DefaultMarshalled + "`"
			}
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", f.FullName, kindOf, value, cell(f.Description))
		}
	}
	in, found := all.GetInputConfig("aibridge")
	describe("Input", "aibridge", in, found)
	out, found := all.GetOutputConfig("aibridge")
	describe("Output", "aibridge", out, found)
	invoke, found := all.GetProcessorConfig("aibridge_invoke")
	describe("Processor", "aibridge_invoke", invoke, found)
	postgres, found := all.GetOutputConfig("postgres")
	describe("Output", "postgres", postgres, found)
	in, found = all.GetInputConfig("kafka")
	describe("Input", "kafka", in, found)
	out, found = all.GetOutputConfig("kafka")
	describe("Output", "kafka", out, found)
	golden(t, "COMPONENTS.md", page.Bytes())
}

func golden(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is stale, %v: go test . -run %s -update", file, err, t.Name())
	}
}

func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "|", `\|`)
}

// TestTheExamplesHaveNoFaults lints all of them, as `aibridge-connect lint` does.
func TestTheExamplesHaveNoFaults(t *testing.T) {
	files, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	out, err := exec.Command(program(t, "aibridge-connect"), append([]string{"lint"}, files...)...).CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFaultsAreNamed lints settings that cannot work.
func TestFaultsAreNamed(t *testing.T) {
	const drop = "\noutput: {drop: {}}\n"
	for text, want := range map[string]string{
		"input: {aibridge: {session: s}}" + drop:                                       "one of topics, events and audit is needed",
		"input: {aibridge: {topics: [a], events: [agent]}}" + drop:                     "one of topics, events and audit is needed",
		"input: {aibridge: {topics: [a], qos: 2}}" + drop:                              "must be 0 or 1",
		"input: {aibridge: {topics: [a], batch: 0}}" + drop:                            "must be 1 to 10000",
		"input: {aibridge: {topics: [a], max_in_flight: 0}}" + drop:                    "must be 1 to 1000",
		"input: {aibridge: {topics: [a], tpoics: [b]}}" + drop:                         "field tpoics not recognised",
		"output: {aibridge: {max_in_flight: 1}}":                                       "one of publish and invoke is needed",
		"output: {aibridge: {publish: {topic: a}, invoke: {skill: s, capability: c}}}": "one of publish and invoke is needed",
		"output: {aibridge: {publish: {topic: a, qos: 3}}}":                            "must be 0, 1 or 2",
		"output: {aibridge: {invoke: {skill: s}}}":                                     "field capability is required",
		"output: {postgres: {table: t, columns: [a]}}":                                 "field args_mapping is required",
		"pipeline: {processors: [{aibridge_invoke: {skill: s}}]}":                      "field capability is required",
		"input: {kafka: {seed_brokers: [a], topics: [b]}}" + drop:                      "field consumer_group is required",
	} {
		file := filepath.Join(t.TempDir(), "fault.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(program(t, "aibridge-connect"), "lint", file).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, says %q, not %q", text, err, out, want)
		}
	}
}

// A module is a part of the program that somebody else wrote.
type module struct{ path, version, licence string }

// allowed are the licences that a part may have. Those of the Mozilla licence are used
// as they are, and their sources can be had at the address that is their path.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "EPL-2.0 or BSD-3-Clause"}

// TestTheLicencesAreListed keeps LICENCES.md the list of what the program is made of.
func TestTheLicencesAreListed(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Replace}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}{{end}}", "./cmd/aibridge-connect")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var modules []module
	for line := range strings.Lines(string(out)) {
		parts := strings.Fields(line)
		if len(parts) != 3 {
			continue
		}
		m := module{parts[0], parts[1], licenceIn(t, parts[2])}
		if slices.Contains(modules, m) {
			continue
		}
		modules = append(modules, m)
		if !slices.Contains(allowed, m.licence) {
			t.Errorf("%s: the licence %q is not one of %v", m.path, m.licence, allowed)
		}
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.path, b.path) })
	var page bytes.Buffer
	page.WriteString("# What the program is made of\n\nEvery module that is in `aibridge-connect`, beside AI Bridge itself and the standard library of Go, with the licence that its own file has. Generated from the dependencies: `go test . -run TestTheLicencesAreListed -update` writes it, and fails for a licence that is not among these: " +
		strings.Join(allowed, ", ") + ".\n\n| module | version | licence |\n|---|---|---|\n")
	for _, m := range modules {
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", m.path, m.version, m.licence)
	}
	golden(t, "LICENCES.md", page.Bytes())
}

// licenceIn tells the licence by the words that only its text has.
func licenceIn(t *testing.T, folder string) string {
	t.Helper()
	var text string
	for _, pattern := range []string{"LICEN[CS]E*", "License*", "COPYING*"} {
		files, _ := filepath.Glob(filepath.Join(folder, pattern))
		for _, file := range files {
			if read, err := os.ReadFile(file); err == nil {
				text += strings.Join(strings.Fields(string(read)), " ") + " "
			}
		}
	}
	has := func(words string) bool { return strings.Contains(text, words) }
	switch {
	case has("Business Source License"), has("Redpanda Community License"):
		return "not free to use"
	case has("Eclipse Public License") && has("Eclipse Distribution License"):
		return "EPL-2.0 or BSD-3-Clause"
	case has("Mozilla Public License"):
		return "MPL-2.0"
	case has("GNU "):
		return "GNU"
	case has("Apache License Version 2.0"), has("Apache License, Version 2.0"):
		return "Apache-2.0"
	case has("Redistribution and use in source and binary forms") && (has("endorse or promote products")):
		return "BSD-3-Clause"
	case has("Redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("Permission is hereby granted, free of charge"):
		return "MIT"
	case has("Permission to use, copy, modify, and/or distribute this software"), has("Permission to use, copy, modify, and distribute this software"):
		return "ISC"
	}
	return "unknown"
}
