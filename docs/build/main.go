// Command build writes the documentation as a site: plain files for any server.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aibridge/aibridge/docs"
	"github.com/aibridge/aibridge/docs/site"
)

func main() {
	out := flag.String("o", "site", "the folder to write to")
	ref := flag.String("ref", "main", "the branch or tag that links to the repository lead to")
	flag.Parse()
	if err := write(*out, *ref); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func write(folder, ref string) error {
	files, err := site.Build(docs.Files, ref)
	if err != nil {
		return err
	}
	for name, content := range files {
		at := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, content, 0o644); err != nil { //nolint:gosec // it is for everybody
			return err
		}
	}
	fmt.Printf("%d files in %s\n", len(files), folder)
	return nil
}
