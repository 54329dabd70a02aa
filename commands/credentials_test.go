package commands_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant/granttest"
)

// wentBad is the answer to those whose credential has ended.
func wentBad() *protocol.Error {
	return protocol.Errorf(protocol.CredentialInvalid, "the credential was revoked")
}

// TestABatchBeginsNothingOnceItsCredentialHasEnded has it end while the first of
// its commands runs.
func TestABatchBeginsNothingOnceItsCredentialHasEnded(t *testing.T) {
	var authority granttest.Authority
	ran := 0
	n := newNode(t, commands.RouterOptions{Credentials: &authority}, define("act", commands.Read,
		func(_ context.Context, call *commands.Call, _ string) (string, error) {
			ran++
			authority.End(call.Principal.ID, wentBad())
			return "", nil
		}))
	entries := strings.Repeat(`,{"command":"test.act"}`, 5)[1:]
	if r := n.call("1", "batch.execute", `{"commands":[`+entries+`]}`); strings.Count(said(r), `"code":"2002"`) != 4 {
		t.Errorf("answered %s", said(r))
	}
	wantSaid(t, n.call("2", "test.act", `{}`), string(protocol.CredentialInvalid))
	if ran != 1 {
		t.Errorf("ran %d times", ran)
	}
}

// TestACallEndsWhenItsCredentialExpires has a call that would take longer.
func TestACallEndsWhenItsCredentialExpires(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		n := newNode(t, commands.RouterOptions{Credentials: new(granttest.Authority)}, define("hang", commands.Read,
			func(ctx context.Context, _ *commands.Call, _ string) (string, error) {
				<-ctx.Done()
				ended <- ctx.Err()
				return "", ctx.Err()
			}))
		brief := *n.who
		brief.Expires = time.Now().Add(2 * time.Second)
		n.who = &brief
		begun := time.Now()
		wantSaid(t, n.call("1", "test.hang", `{}`), string(protocol.CredentialInvalid))
		<-ended
		if took := time.Since(begun); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
