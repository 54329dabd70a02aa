package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
)

var fence = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestTheReadmeWorksAsWritten runs its commands, but for the port and the folder that
// the program is built into.
func TestTheReadmeWorksAsWritten(t *testing.T) {
	for _, tool := range []string{"mosquitto_pub", "psql"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (Debian: apt install mosquitto-clients postgresql-client)", tool)
		}
	}
	_, database := newPostgres(t)
	_, url := newBridge(t)
	newSender(t, url) // the bridge answers
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := fence.FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of commands", len(blocks))
	}
	table := startTable(t, url, database) // the first block: the same flags, and ends with the test
	if want := strings.Join(table.args[2:], " "); !strings.Contains(strings.ReplaceAll(blocks[0][1], "'", ""), want) {
		t.Errorf("the README does not run the program with %s", want)
	}
	port := url[strings.LastIndex(url, ":")+1:]
	commands := strings.ReplaceAll(blocks[1][1], "-p 1883", "-p "+port)
	eventually.Holds(t, "the table has what was published", func() bool {
		cmd := exec.CommandContext(t.Context(), "bash", "-ec", commands)
		cmd.Env = append(os.Environ(), "DATABASE_URL="+database)
		out, err := cmd.CombinedOutput()
		return err == nil && strings.Contains(string(out), "21.5")
	})
}
