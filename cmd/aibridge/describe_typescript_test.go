package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/app"
)

func TestTheTypesOfTheCommandsAreCurrent(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	if err := commands.WriteTypeScript(&want, app.Commands()); err != nil {
		t.Fatal(err)
	}
	for file, generate := range map[string]string{"console/src/types.ts": "./console", "sdk/js/src/commands.ts": "./sdk/js"} {
		got, err := os.ReadFile("../../" + file)
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is stale: go generate %s (%v)", file, generate, err)
		}
	}
}
