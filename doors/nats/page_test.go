package nats

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestThePageTellsTheMapping holds docs/nats.md to what is done.
func TestThePageTellsTheMapping(t *testing.T) {
	page, err := os.ReadFile("../../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| topic | subject |")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\|$").FindAllStringSubmatch(table, -1)
	if len(rows) < 5 {
		t.Fatalf("the page has %d examples", len(rows))
	}
	for _, row := range rows {
		if subject, err := subjectOf(row[1], true); err != nil || subject != row[2] {
			t.Errorf("%q is %q (%v), and the page says %q", row[1], subject, err, row[2])
		}
	}
}

// TestThePageHasGoodSettings reads those of the page.
func TestThePageHasGoodSettings(t *testing.T) {
	page, err := os.ReadFile("../../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ := strings.Cut(rest, "```")
	var file struct {
		Doors struct {
			NATS Settings `yaml:"nats"`
		} `yaml:"doors"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(block))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if s := file.Doors.NATS; !s.On() || s.Principal == "" || s.Agents == "" || len(s.Publish) != 1 || len(s.Subscribe) != 1 {
		t.Errorf("the page's settings are %+v", s)
	}
	file.Doors.NATS.Check("aibridge", t.Errorf)
}
