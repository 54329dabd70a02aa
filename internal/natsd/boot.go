package natsd

import (
	"os"
	"strings"

	"github.com/nats-io/nuid"
)

// process is the name of the run of a machine without one.
var process = nuid.Next()

// Boot names the present run of the machine: it changes when the machine starts
// anew, after which unsynced writes may be gone. Where the system has no such name,
// every process has its own.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if text := strings.TrimSpace(string(id)); err == nil && text != "" {
		return text
	}
	return process
}
