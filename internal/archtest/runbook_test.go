package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// An alert is a rule of Prometheus, as it is deployed.
type alert struct {
	Name        string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Annotations map[string]string `yaml:"annotations"`
}

// alerts are those of all files, by name.
func alerts(t *testing.T) map[string]alert {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "deploy/prometheus/*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%q, %v", files, err)
	}
	all := make(map[string]alert)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var rules struct{ Groups []struct{ Rules []alert } }
		if err := yaml.Unmarshal(text, &rules); err != nil {
			t.Fatal(err)
		}
		for _, group := range rules.Groups {
			for _, a := range group.Rules {
				if _, twice := all[a.Name]; twice {
					t.Errorf("%s is there twice", a.Name)
				}
				all[a.Name] = a
			}
		}
	}
	return all
}

// entries are those of the runbook, by the alert that they are for.
func entries(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, chapter := range strings.Split(string(page), "\n## ")[1:] {
		for _, entry := range strings.Split(chapter, "\n### ")[1:] {
			name, body, _ := strings.Cut(entry, "\n")
			all[name] = "\n" + body
		}
	}
	return all
}

var measure = regexp.MustCompile(`aibridge_[a-z_]+`)

// TestEachAlertHasItsEntryInTheRunbook keeps both to one another: names, links,
// what an entry tells, and which metric it says to look at.
func TestEachAlertHasItsEntryInTheRunbook(t *testing.T) {
	alerts, entries := alerts(t), entries(t)
	for name := range entries {
		if _, ok := alerts[name]; !ok {
			t.Errorf("the runbook has %s, which is no alert", name)
		}
	}
	for name, a := range alerts {
		entry, ok := entries[name]
		if !ok {
			t.Errorf("the runbook has no entry for %s", name)
			continue
		}
		if want := "https://github.com/aibridge/aibridge/blob/main/docs/runbook.md#" + strings.ToLower(name); a.Annotations["runbook_url"] != want {
			t.Errorf("%s leads to %q, not to %s", name, a.Annotations["runbook_url"], want)
		}
		at := 0
		for _, part := range []string{"**It means** ", "**Users notice** ", "**Look** ", "**Do** ", "**It is over** "} {
			i := strings.Index(entry[at:], "\n"+part)
			if i < 0 {
				t.Errorf("the entry of %s does not say %q, or not in its place", name, part)
				break
			}
			at += i
		}
		for _, metric := range measure.FindAllString(entry, -1) {
			if !slices.Contains(measure.FindAllString(a.Expr, -1), metric) {
				t.Errorf("the entry of %s speaks of %s, of which the alert is not", name, metric)
			}
		}
	}
}
