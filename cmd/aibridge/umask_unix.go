//go:build unix

package main

import "syscall"

// keepPrivate makes all new files of the process private to its user, in libraries
// too and with any mode.
func keepPrivate() { syscall.Umask(0o077) }
