package config_test

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/connect/link"
	"github.com/aibridge/aibridge/internal/config"
)

// TestTheLinkToTheCentreHasItsNameAlone where the bridge is a site that shows Caps.
func TestTheLinkToTheCentreHasItsNameAlone(t *testing.T) {
	t.Parallel()
	known, err := commands.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	for _, caps := range [][]string{nil, {"*"}} {
		c := config.Default()
		c.Dev = true
		c.Sites.Join.Name, c.Sites.Join.URL, c.Sites.Join.Caps = "plant", "mqtt://127.0.0.1", caps
		c.Links = []link.Config{{Name: "site", URL: "mqtt://127.0.0.1", Out: []link.Rule{{Topic: "a"}}}}
		err := c.Check(known)
		if refused := err != nil && strings.Contains(err.Error(), `"site" is the name of the link to the centre`); refused != (caps != nil) {
			t.Errorf("with the Caps %q: %v", caps, err)
		}
	}
}
