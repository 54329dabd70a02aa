// Package migrate has the rooms that read configurations of other programs as
// the bridge's.
package migrate

import "fmt"

// A Note is a difference between the old configuration and the new one.
type Note struct {
	File string
	Line int
	Text string
}

func (n Note) String() string { return fmt.Sprintf("%s:%d: %s", n.File, n.Line, n.Text) }
