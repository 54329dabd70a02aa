// Package python holds the sources of the Python SDK, for folders that bring it along.
package python

import (
	"embed"
	"io/fs"
)

//go:embed src/aibridge/*.py src/aibridge/py.typed
var files embed.FS

// Source is the package aibridge: its files, without a folder around them.
func Source() fs.FS {
	below, err := fs.Sub(files, "src/aibridge")
	if err != nil {
		panic(err) // the path is a constant that is valid
	}
	return below
}
