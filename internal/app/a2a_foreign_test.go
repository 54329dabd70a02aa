package app_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// The client library of the A2A project itself, in both bindings. It is not installed
// with the tests: A2A_SDK names a folder where it is (make a2a-client).
func TestTheOfficialClientOfA2AIsServed(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("A2A_SDK")
	node, err := exec.LookPath("node")
	if folder == "" || err != nil {
		t.Skip("A2A_SDK does not name a folder with the npm package @a2a-js/sdk, or node is not installed (make a2a-client)")
	}
	n := bridgetest.Start(t, agents)
	heater(t, n)
	said, err := exec.CommandContext(t.Context(), node, "testdata/a2a_client.cjs", n.HTTPURL(""), folder).CombinedOutput()
	if err != nil || strings.Count(string(said), " ok ") != 2 {
		t.Errorf("%v\n%s", err, said)
	}
}
