package mcp

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestACancelledCallIsNotAnswered(t *testing.T) {
	id, err := jsonrpc.MakeID("1")
	if err != nil {
		t.Fatal(err)
	}
	for _, cancelled := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		replies := 0
		s := newSingle(ctx, &jsonrpc.Request{ID: id, Method: "ping"}, func([]byte) { replies++ })
		if cancelled {
			cancel()
		}
		for range 2 { // the second answer is one too many, whatever happened to the first
			if err := s.Write(ctx, &jsonrpc.Response{ID: id, Result: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
		if want := map[bool]int{false: 1, true: 0}[cancelled]; replies != want {
			t.Errorf("cancelled %v: %d replies", cancelled, replies)
		}
	}
}
