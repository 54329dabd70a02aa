// Package js holds the built JavaScript SDK, for folders that bring it along. A program
// that embeds it needs no Node to be built.
package js

import (
	"embed"
	"io/fs"
)

//go:generate sh -c "go run ../../cmd/aibridge describe --typescript > src/commands.ts"
//go:generate npm run --silent build

//go:embed dist
var dist embed.FS

// Source is the package @aibridge/client: its built files, without a folder around them.
// node.js is what programs for Node import, index.js what pages do.
func Source() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the path is a constant that is valid
	}
	return files
}
