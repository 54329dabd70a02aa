package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/sdk/conformance"
)

// conform runs the command in this process.
func conform(args ...string) (said string, err error) {
	cmd := root()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"conformance", "--patience", "10ms", "--only", "call/echo"}, args...))
	err = cmd.Execute()
	return out.String(), err
}

func TestConformanceSaysWhatFailsAndWhere(t *testing.T) {
	idle, err := exec.LookPath("true")
	if err != nil {
		t.Skip("there is no program that does nothing")
	}
	said, err := conform("--", idle)
	if err == nil || !strings.Contains(said, "FAIL  call/echo") || !strings.Contains(said, "docs/protocol.md#") || !strings.HasSuffix(said, "0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("%v\n%s", err, said)
	}
	said, err = conform("--json", "--", idle)
	var report conformance.Report
	if err == nil || json.Unmarshal([]byte(said), &report) != nil || report.Count(conformance.Failed) != 1 {
		t.Errorf("%v\n%s", err, said)
	}
}

func TestConformanceOfNothingIsAnError(t *testing.T) {
	if _, err := conform("--", t.TempDir()+"/nothing"); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Errorf("%v", err)
	}
	if _, err := conform(); err == nil || err.Error() != "PROGRAM is missing" {
		t.Errorf("no program: %v", err)
	}
}
