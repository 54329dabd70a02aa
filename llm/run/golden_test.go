package run

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write what tests get as what they want")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed; if that is meant, run with -update\n%s", path, got)
	}
}

// changing are the things that no two runs have in common: durations, moments, and the
// hashes of files that hold them.
var changing = regexp.MustCompile(`("(?:durationMs|at)": )(?:[0-9.e-]+|"[^"]*")|(\\*"(?:sha256|sha256After|sha256Before)\\*": ?\\*")[0-9a-f]{64}`)

// outline tells turns so that they can be compared: of a request, what the one
// before did not say.
func outline(turns []Turn) []byte {
	turns = slices.Clone(turns)
	for i := len(turns) - 1; i > 0; i-- {
		turns[i].Request.Messages = turns[i].Request.Messages[len(turns[i-1].Request.Messages):]
		if len(turns[i].Request.Tools) == len(turns[i-1].Request.Tools) {
			turns[i].Request.Tools = nil
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(turns); err != nil {
		return []byte(err.Error())
	}
	text := changing.ReplaceAll(b.Bytes(), []byte(`${1}${2}~`))
	return regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAll(text, []byte("~"))
}
