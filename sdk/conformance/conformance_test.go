package conformance_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/gobuild"
	"github.com/aibridge/aibridge/sdk/conformance"
)

// holds runs all clauses against a device; every one must pass, but for those
// that the device has leave to skip.
func holds(t *testing.T, o conformance.Options, maySkip ...string) {
	t.Helper()
	o.CheckParams, o.Patience = bridgetest.CheckParams, eventually.Patience
	o.Progress = func(r conformance.Result) {
		t.Run(r.Name, func(t *testing.T) {
			switch {
			case r.Outcome == conformance.Failed:
				t.Error(r)
			case r.Outcome == conformance.Skipped && !slices.Contains(maySkip, r.Name):
				t.Errorf("skipped: %s", r.Reason)
			}
		})
	}
	report, err := conformance.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Count(conformance.Passed) < 40 {
		t.Errorf("only %d clauses passed", report.Count(conformance.Passed))
	}
}

// built is a device in Go, compiled.
func built(t *testing.T, folder string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "device")
	if out, err := gobuild.Command(t.Context(), "build", "-o", binary, folder).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

func TestTheGoSDKConforms(t *testing.T) {
	t.Parallel()
	holds(t, conformance.Options{Command: []string{built(t, "./device")}},
		"restart/once", "restart/interrupted") // its memory ends with the process
}
