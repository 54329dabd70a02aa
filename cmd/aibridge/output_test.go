package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// What a device calls itself cannot make a terminal show something else.
func TestHiddenCharactersAreNamed(t *testing.T) {
	t.Parallel()
	result := json.RawMessage(`{"name":"pay` + "\u202e" + `exe.txt","agents":[{"agent_id":"la` + "\u00ad" + `mp","name":"bell` + "\u009b" + `31m ❤️"}]}`)
	var table, raw strings.Builder
	if err := errors.Join(writeTable(&table, result), writeJSON(&raw, result)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pay<U+202E>exe.txt", "la<U+00AD>mp", "bell 31m ❤️"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, &table)
		}
	}
	for _, want := range []string{`pay\u202eexe.txt`, `la\u00admp`, `bell\u009b31m ❤️`} {
		if !strings.Contains(raw.String(), want) {
			t.Errorf("no %q in\n%s", want, &raw)
		}
	}
	var before, after any
	if errors.Join(json.Unmarshal(result, &before), json.Unmarshal([]byte(raw.String()), &after)) != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("%s means something else than %s", &raw, result)
	}
	if got := jsonLine([]byte("\"\U000e0061\"")); got != `"\udb40\udc61"` {
		t.Error(got)
	}
	if got := legible("a\tb\nc\x1b\u200bd"); got != "a\tb\nc <U+200B>d" {
		t.Errorf("%q", got)
	}
}

func TestANameWithAListIsARowForEach(t *testing.T) {
	var out bytes.Buffer
	if err := writeTable(&out, json.RawMessage(`{"secrets":[{"secret":"data_key","versions":[{"version":"b","state":"active"},{"version":"a","state":"old"}]},{"secret":"pepper","versions":[]}]}`)); err != nil {
		t.Fatal(err)
	}
	want := "SECRET    VERSION  STATE   \ndata_key  b        active  \ndata_key  a        old     \npepper                    \n"
	if got := strings.ReplaceAll(out.String(), " \n", "\n"); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("shown as\n%s", out.String())
	}
}
