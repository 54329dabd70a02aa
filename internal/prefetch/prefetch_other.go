//go:build !amd64 && !arm64

// Package prefetch brings memory into the processor's caches before it is read.
package prefetch

// Line does nothing: it is only of use where it is cheap.
func Line(uintptr) {}

// Lines does nothing.
func Lines(_, _ uintptr) {}
