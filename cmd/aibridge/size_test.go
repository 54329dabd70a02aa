package main

import (
	"bytes"
	"os"
	"testing"
)

// TestTheBinaryHasOnlyMethodsThatAreCalled finds out whether some library keeps the linker
// from leaving out methods that nobody calls, as text/template does: several megabytes.
// `go build -ldflags=-dumpdep` says which function it is (<ReflectMethod>).
func TestTheBinaryHasOnlyMethodsThatAreCalled(t *testing.T) {
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const called, never = "crypto/x509.(*Certificate).Verify", "crypto/x509.(*Certificate).CreateCRL"
	if !bytes.Contains(program, []byte(called)) {
		t.Errorf("the binary does not name its functions: %s", called)
	}
	if bytes.Contains(program, []byte(never)) {
		t.Errorf("the binary has %s, which nobody calls", never)
	}
}
