// Package console holds the built page of the bridge: what the sources beside
// it give, see DESIGN.md. A bridge embeds it, so building one needs no Node.
package console

import (
	"embed"
	"io/fs"
)

//go:generate sh -c "go run ../cmd/aibridge describe --typescript > src/types.ts"
//go:generate go run ./build

//go:embed dist
var dist embed.FS

// Pages are the first levels of the addresses that the page answers for: each
// is a page of the console, and what follows is the page's own.
var Pages = []string{
	"approvals", "tasks", "agents", "skills", "topics", "caps", "scenes", "runs", "conversations", "models",
	"files", "policies", "audit", "access", "mcp-servers", "links", "cluster", "settings", "commands",
}

// Files are the built files, index.html among them.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name is a constant
	}
	return files
}
