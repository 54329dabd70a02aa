package link

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestThePageHasGoodSettings reads those of docs/links.md.
func TestThePageHasGoodSettings(t *testing.T) {
	page, err := os.ReadFile("../../docs/links.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```yaml\n")[1:]
	if len(blocks) < 3 {
		t.Fatalf("the page has %d examples", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		var file struct {
			Links []Config `yaml:"links"`
		}
		decoder := yaml.NewDecoder(strings.NewReader(block))
		decoder.KnownFields(true)
		if err := decoder.Decode(&file); err != nil {
			t.Fatal(err)
		}
		Check(file.Links, "aibridge", false, t.Errorf)
	}
}
