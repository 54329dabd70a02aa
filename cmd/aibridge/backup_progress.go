package main

import (
	"fmt"
	"io"
	"os"

	"github.com/aibridge/aibridge/internal/backup"
)

// A backupProgress tells a person how far a backup is: on a terminal in one
// line that changes, elsewhere in a line for every section.
type backupProgress struct {
	w        io.Writer
	terminal bool
	section  string
	shown    bool
}

func newBackupProgress(w io.Writer) *backupProgress {
	p := &backupProgress{w: w}
	if file, ok := w.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// sectionNames are the sections of a backup in words.
var sectionNames = map[string]string{
	"registry": "registrations", "claims": "claims", "mqtt-values": "MQTT sessions", "mqtt-log": "messages that wait", "audit": "the audit trail", "files": "files",
}

// tell shows how far the backup is.
func (p *backupProgress) tell(at backup.Progress) {
	switch {
	case p.terminal:
		fmt.Fprintf(p.w, "\r\x1b[Kcopying %s, %.1f MiB so far", sectionNames[at.Section], float64(at.Bytes)/(1<<20))
		p.shown = true
	case at.Section != p.section:
		fmt.Fprintln(p.w, "copying", sectionNames[at.Section])
	}
	p.section = at.Section
}

// end clears the line.
func (p *backupProgress) end() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
