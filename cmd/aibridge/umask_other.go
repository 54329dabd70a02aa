//go:build !unix

package main

// keepPrivate does nothing: the folder's access control is inherited.
func keepPrivate() {}
