package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/protocol"
)

// TestEveryCommandLivesInAFileOfItsOwn looks for registry/agent_get.go or
// task/get.go: where a command is, nobody should have to search.
func TestEveryCommandLivesInAFileOfItsOwn(t *testing.T) {
	t.Parallel()
	files := make(map[string]bool)
	err := filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") {
			files[filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path)] = true
			files["*/"+filepath.Base(path)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for command := range app.Commands().All() {
		family, verb, _ := strings.Cut(command.Name, ".")
		verb = strings.NewReplacer(".", "_", "-", "_").Replace(verb)
		if !files[family+"/"+verb+".go"] && !files["*/"+family+"_"+verb+".go"] {
			t.Errorf("no file %s/%s.go or %s_%s.go holds %s", family, verb, family, verb, command.Name)
		}
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	t.Parallel()
	for command := range app.Commands().All() {
		if command.Example == "" {
			t.Errorf("%s has no example", command.Name)
		} else if err := command.CheckParams([]byte(command.Example)); err != nil {
			t.Errorf("the example of %s: %v", command.Name, err)
		}
		if want := strings.ReplaceAll(command.Name, ".", ":"); !strings.HasPrefix(command.Action, strings.SplitN(want, ":", 2)[0]+":") {
			t.Errorf("%s decides on the action %q of another family", command.Name, command.Action)
		}
		for _, code := range command.Errors {
			if !code.Known() {
				t.Errorf("%s answers with the unknown code %s", command.Name, code)
			}
		}
	}
}

// TestEveryFieldHasAMeaning asks for the tag doc on every field of params and
// results: docs/commands.md, bridge.describe and OpenAPI show it.
func TestEveryFieldHasAMeaning(t *testing.T) {
	t.Parallel()
	if err := app.Commands().CheckMeanings(); err != nil {
		t.Error(err)
	}
}

// TestSchemasPassTheBridgesOwnDecoder holds the schemas to what is asked of
// every message: they travel in the answers of bridge.describe.
func TestSchemasPassTheBridgesOwnDecoder(t *testing.T) {
	t.Parallel()
	for command := range app.Commands().All() {
		for what, document := range map[string][]byte{"params": command.ParamsSchema(), "result": command.ResultSchema()} {
			if err := protocol.CheckJSON(document, protocol.Limits{}); err != nil {
				t.Errorf("the schema of the %s of %s: %v", what, command.Name, err)
			}
		}
	}
}
