package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
)

// TestWalkingThroughAWorkflowWorksAsWritten runs the tour's section about
// workflows.
func TestWalkingThroughAWorkflowWorksAsWritten(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	page, err := os.ReadFile("../../docs/tour.md")
	if err != nil {
		t.Fatal(err)
	}
	model := httptest.NewServer(new(caretaker))
	defer model.Close()
	defer model.CloseClientConnections()
	bridge := startBinary(t, t.TempDir(), "--dev", "--llm-base-url", model.URL+"/v1", "--llm-model", "m-1")
	serveThermostat(t, bridge, func(float64) {})
	steps := tour(sectionOf(t, string(page), "Have it walk"))
	if len(steps) != 4 {
		t.Fatalf("found %d steps", len(steps))
	}
	shell := startShell(t, bridge)
	for i, step := range steps {
		shell.take(t, i, step)
	}
}
