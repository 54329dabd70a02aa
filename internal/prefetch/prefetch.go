//go:build amd64 || arm64

// Package prefetch brings memory into the processor's caches before it is read.
package prefetch

// Line has the processor fetch the cache line with an address, and does not wait for it.
// The address may be any: none faults.
//
//go:noescape
func Line(address uintptr)

// Lines is Line for the memory from an address on, of a size in bytes.
//
//go:noescape
func Lines(address, size uintptr)
