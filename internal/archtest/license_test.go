package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryFileHasALicence keeps to one way of saying it: REUSE.toml does for
// all files, and those of the C core, which people copy into their firmware, do
// so themselves.
func TestEveryFileHasALicence(t *testing.T) {
	all, err := os.ReadFile(filepath.Join(root, "REUSE.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`path = "**"`, `SPDX-License-Identifier = "Apache-2.0"`, "SPDX-FileCopyrightText = "} {
		if !strings.Contains(string(all), want) {
			t.Errorf("REUSE.toml lacks %s", want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(root, "LICENSES", "Apache-2.0.txt")); err != nil || !strings.Contains(string(text), "Apache License") {
		t.Errorf("the text of the licence is missing: %v", err)
	}
	const header = "/* SPDX-License-Identifier: Apache-2.0 */\n"
	found := 0
	for _, folder := range []string{"src", "mosquitto", "examples", "tests"} {
		files, err := filepath.Glob(filepath.Join(root, "sdk", "c", folder, "*.[ch]"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			found++
			if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), header) {
				t.Errorf("%s does not begin with %s %v", file, strings.TrimSpace(header), err)
			}
		}
	}
	if found < 10 {
		t.Errorf("found only %d files of the C core", found)
	}
}
