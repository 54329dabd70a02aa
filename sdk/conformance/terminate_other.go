//go:build !unix

package conformance

import "os"

// terminate ends a process: there is no way to ask it.
func terminate(p *os.Process) error { return p.Kill() }
