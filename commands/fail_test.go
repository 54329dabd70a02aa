package commands_test

import (
	"context"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

func TestCallsOfAPrincipalAreFailedWhileTheyRunOrWait(t *testing.T) {
	started, ended := make(chan struct{}, 2), make(chan error, 2)
	n := newNode(t, commands.RouterOptions{Workers: 1}, define("hang", commands.Read,
		func(ctx context.Context, _ *commands.Call, _ string) (string, error) {
			started <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return "", ctx.Err()
		}))
	mallory := &protocol.Principal{Kind: protocol.KindAgent, ID: "mallory", Space: protocol.DefaultSpace, CertSerial: "8a1b2c3d4e5f6a7b"}
	bob := n.who
	n.who = mallory
	running := n.submit("1", "test.hang", `{}`)
	<-started
	waiting := n.submit("2", "test.hang", `{}`) // for the only worker
	n.who = bob
	others := n.submit("3", "test.hang", `{}`)

	refusal := protocol.Errorf(protocol.CertificateRevoked, "the certificate was revoked")
	of := func(matches func(*protocol.Principal) bool) func(*protocol.Principal) error {
		return func(who *protocol.Principal) error {
			if matches(who) {
				return refusal
			}
			return nil
		}
	}
	if failed := n.Fail(of(func(who *protocol.Principal) bool { return who.CertSerial == mallory.CertSerial })); failed != 2 {
		t.Errorf("%d calls failed, want 2", failed)
	}
	wantSaid(t, <-running, string(protocol.CertificateRevoked))
	wantSaid(t, <-waiting, string(protocol.CertificateRevoked))
	if err := <-ended; err == nil {
		t.Error("the context of the call did not end")
	}
	<-started // bob's has the worker now
	select {
	case r := <-others:
		t.Errorf("another principal's call was answered %s", said(r))
	default:
	}
	n.Fail(of(func(who *protocol.Principal) bool { return who == bob }))
	wantSaid(t, <-others, string(protocol.CertificateRevoked))
	if again := n.Fail(of(func(*protocol.Principal) bool { return true })); again != 0 {
		t.Errorf("%d calls failed twice", again)
	}
}

func TestAHandlerSeesTheBytesOfItsParams(t *testing.T) {
	const sent = `{ "text" :  "h\u0069" }`
	n := newNode(t, commands.RouterOptions{}, define("raw", commands.Read,
		func(_ context.Context, call *commands.Call, _ string) (string, error) {
			return string(call.RawParams()), nil
		}))
	wantSaid(t, n.call("1", "test.raw", sent), `{"text":"{ \"text\" :  \"h\\u0069\" }"}`)
}
