package data

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

var fence = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestThePageWorksAsWritten runs the commands of docs/data.md, but for the port and the
// folder that the program is built into.
func TestThePageWorksAsWritten(t *testing.T) {
	for _, tool := range []string{"mosquitto_pub", "psql"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (Debian: apt install mosquitto-clients postgresql-client)", tool)
		}
	}
	page, err := os.ReadFile("../../docs/data.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := fence.FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 || !strings.Contains(blocks[0][1], "run connect/data/examples/postgres.yaml") {
		t.Fatalf("the page has other blocks of commands: %v", blocks)
	}
	_, database := newPostgres(t)
	_, url := newBridge(t)
	newSender(t, url) // the bridge answers
	newPipeline(t, "postgres", "AIBRIDGE_URL="+url, "DATABASE_URL="+database)
	port := url[strings.LastIndex(url, ":")+1:]
	commands := strings.ReplaceAll(blocks[1][1], "-p 1883", "-p "+port)
	eventually.Holds(t, "the table has what was published", func() bool {
		cmd := exec.CommandContext(t.Context(), "bash", "-ec", commands)
		cmd.Env = append(os.Environ(), "DATABASE_URL="+database)
		out, err := cmd.CombinedOutput()
		return err == nil && strings.Contains(string(out), "21.5")
	})
}
