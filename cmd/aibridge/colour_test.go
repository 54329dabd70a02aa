package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestResultsAreColouredForPeopleAlone(t *testing.T) {
	for name, c := range map[string]struct {
		when     string
		terminal bool
		env      map[string]string
		want     bool
	}{
		"a terminal":              {colourAuto, true, map[string]string{"TERM": "xterm"}, true},
		"a pipe":                  {colourAuto, false, map[string]string{"TERM": "xterm"}, false},
		"a terminal without them": {colourAuto, true, map[string]string{"TERM": "dumb"}, false},
		"somebody who wants none": {colourAuto, true, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		"NO_COLOR that is empty":  {colourAuto, true, map[string]string{"TERM": "xterm", "NO_COLOR": ""}, true},
		"a pipe that wants them":  {colourAlways, false, map[string]string{"NO_COLOR": "1"}, true},
		"a terminal told no":      {colourNever, true, nil, false},
	} {
		if got := coloured(c.when, c.terminal, func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Without its colours a coloured table is the one that has none.
func TestColoursDoNotMoveColumns(t *testing.T) {
	result := json.RawMessage(`{"status":"online","agents":[{"agent_id":"lamp","status":"online","name":"L"},{"agent_id":"a-longer-id","status":"suspended"},{"agent_id":"x","status":"strange","name":"\u001b[31mred"}]}`)
	var plain, colourful bytes.Buffer
	if err := writeTable(&plain, result); err != nil {
		t.Fatal(err)
	}
	if err := writeTable(painted{&colourful}, result); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Errorf("%q", plain.String())
	}
	if !strings.Contains(colourful.String(), green+"online"+uncoloured) || !strings.Contains(colourful.String(), yellow+"suspended") || strings.Contains(colourful.String(), red) {
		t.Errorf("%q", colourful.String())
	}
	if got := escapes.ReplaceAllString(colourful.String(), ""); got != plain.String() {
		t.Errorf("%s\nis not\n%s", got, plain.String())
	}
}

func TestAStrangeColourIsRefused(t *testing.T) {
	cmd := root()
	cmd.SetArgs([]string{"version", "--color", "pink"})
	if err := cmd.Execute(); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "auto always never") {
		t.Errorf("%v", err)
	}
}
