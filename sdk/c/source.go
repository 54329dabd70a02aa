// Package c holds the sources of the C core and of its port to libmosquitto, for
// folders that bring them along.
package c

import "embed"

// Source has the core in src and the port in mosquitto.
//
//go:embed src mosquitto
var Source embed.FS
