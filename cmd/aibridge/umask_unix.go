//go:build unix

package main

import "syscall"

// keepPrivate has all files that the process makes be its user's alone,
// whatever makes them and whatever mode that asks for.
func keepPrivate() { syscall.Umask(0o077) }
