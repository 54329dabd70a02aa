package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

func TestSmoke(t *testing.T) {
	type params struct {
		Name string `json:"name"`
	}
	type result struct {
		Greeting string `json:"greeting"`
	}
	hello := commands.New(commands.Spec{Name: "test.hello", Summary: "x", Action: "test:hello", Effect: commands.Act},
		func(ctx context.Context, call *commands.Call, p params) (result, error) {
			if p.Name == "fail" {
				return result{}, errors.New("boom")
			}
			return result{"hello " + p.Name}, nil
		})
	set, err := commands.NewSet(append(commands.Builtin(), hello)...)
	if err != nil {
		t.Fatal(err)
	}
	r := commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	who := &protocol.Principal{ID: "me", Space: "default"}
	for _, body := range []string{
		`{"version":"0.6.3","id":"1","timestamp":0,"type":"request","command":"test.hello","params":{"name":"x"},"metadata":{}}`,
		`{"version":"0.6.3","id":"1","timestamp":0,"type":"request","command":"test.hello","params":{"name":"x"},"metadata":{}}`,
		`{"version":"0.6.3","id":"1","timestamp":0,"type":"request","command":"test.hello","params":{"name":"y"},"metadata":{}}`,
		`{"version":"0.6.3","id":"2","timestamp":0,"type":"request","command":"test.helo","params":{"name":"y"},"metadata":{}}`,
		`{"version":"0.6.3","id":"3","timestamp":0,"type":"request","command":"test.hello","params":{"nam":"y"},"metadata":{}}`,
		`{"version":"0.6.3","id":"4","timestamp":0,"type":"request","command":"test.hello","params":{"name":"fail"},"metadata":{}}`,
		`{"version":"0.6.3","id":"5","timestamp":0,"type":"request","command":"batch.execute","params":{"commands":[{"command":"test.hello","params":{"name":"a"}},{"command":"nope"},{"command":"test.hello","params":{"name":"b"}}],"mode":"parallel"},"metadata":{}}`,
		`{"version":"0.6.3","id":"6","timestamp":0,"type":"request","command":"batch.execute","params":{"commands":[{"command":"batch.execute","params":{"name":"a"}}]},"metadata":{}}`,
		`{"version":"0.6.3","id":"7","timestamp":0,"type":"request","command":"bridge.describe","params":{"command":"command.register"},"metadata":{}}`,
	} {
		resp := r.Handle(t.Context(), commands.Inbound{Principal: who, Body: []byte(body)})
		t.Logf("%s", resp.Append(nil))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
	_ = json.Valid
}
