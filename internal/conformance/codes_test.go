package conformance

import (
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

// TestCodesHaveTheirRanges holds every code against the ranges of section 15
// and those of files against the HTTP statuses of section 16.6.
func TestCodesHaveTheirRanges(t *testing.T) {
	t.Parallel()
	for _, code := range protocol.Codes() {
		if len(code) != 4 || code[0] < '1' || code[0] > '5' || code.String() == "" {
			t.Errorf("%q %s is of no range", string(code), code)
		}
		if code[0] <= '2' && code.Retry() != protocol.RetryNever { // parameters and rights, section 15.2
			t.Errorf("%s is retried: %v", code, code.Retry())
		}
	}
	for code, status := range map[protocol.Code]int{
		protocol.VFSUnavailable: 503, protocol.SyncFailed: 400, protocol.FileNotFound: 404, protocol.VFSPermission: 403, protocol.NoSpace: 507,
	} {
		if code.HTTPStatus() != status {
			t.Errorf("%s has status %d, the document %d", code, code.HTTPStatus(), status)
		}
	}
	for code, number := range map[protocol.Code]string{
		protocol.VFSUnavailable: "4001", protocol.SyncFailed: "4002", protocol.FileNotFound: "4003", protocol.VFSPermission: "4004", protocol.NoSpace: "4005",
	} {
		if string(code) != number {
			t.Errorf("%s is %s, in the document %s", code, string(code), number)
		}
	}
	if protocol.Busy.Retry() == protocol.RetryNever { // a busy service is tried again later
		t.Error("4008 is not retried")
	}
}

// TestSouthboundCodesAreRetriedAsInTheDocument holds the codes of the LLM
// protocol against section 17.3.3.
func TestSouthboundCodesAreRetriedAsInTheDocument(t *testing.T) {
	t.Parallel()
	for code, retried := range map[protocol.SouthboundCode]bool{
		"1000": false, "1001": false, "1002": false, "1003": false, "1004": true,
		"1005": true, "1006": true, "1007": true, "1008": false, "1009": true,
	} {
		if code.Retried() != retried {
			t.Errorf("%s is retried: %v", code, code.Retried())
		}
	}
	for code, want := range map[protocol.Code]protocol.SouthboundCode{
		protocol.InvalidParameter: "1000", protocol.NotAuthenticated: "1001", protocol.PermissionDenied: "1002", protocol.NotFound: "1003",
		protocol.TimedOut: "1004", protocol.AgentOffline: "1005", protocol.Busy: "1006", protocol.Internal: "1007",
		protocol.MalformedEnvelope: "1008", protocol.LLMUnavailable: "1009",
	} {
		if got := protocol.SouthboundCodeOf(protocol.Errorf(code, "it failed")); got != want {
			t.Errorf("%s is %s, in the document %s", code, got, want)
		}
	}
}
