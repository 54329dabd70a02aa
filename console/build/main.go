// Command build makes the page of the console out of its sources: it writes
// console/dist. It needs the npm packages of console/package-lock.json, and
// fetches them by npm ci if they are not there. Run it by go generate ./console.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	dir := flag.String("dir", ".", "folder of the console")
	flag.Parse()
	if err := fetch(*dir); err != nil {
		fail(err)
	}
	files, err := build(*dir)
	if err != nil {
		fail(err)
	}
	if err := write(filepath.Join(*dir, "dist"), files); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "console/build:", err)
	os.Exit(1)
}

// fetch has npm fetch the packages, if they are not there.
func fetch(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "mqtt")); err == nil {
		return nil
	}
	npm := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir, npm.Stdout, npm.Stderr = dir, os.Stderr, os.Stderr
	return npm.Run()
}

// build makes the files of dist by their names.
func build(dir string) (map[string][]byte, error) {
	pages, err := filepath.Glob(filepath.Join(absolute(dir), "src", "pages", "*.tsx"))
	if err != nil {
		return nil, err
	}
	root, err := filepath.Abs(filepath.Join(dir, "dist"))
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	take := func(result api.BuildResult) error {
		if len(result.Errors) > 0 {
			return fmt.Errorf("%s", strings.Join(api.FormatMessages(result.Errors, api.FormatMessagesOptions{}), ""))
		}
		for _, f := range result.OutputFiles {
			name, err := filepath.Rel(root, f.Path)
			if err != nil {
				return err
			}
			files[filepath.ToSlash(name)] = f.Contents
		}
		return nil
	}
	core := options(dir)
	core.Define["BUILT"] = names(pages) // the navigation offers what there is
	core.EntryPoints = []string{filepath.Join(absolute(dir), "src", "core.ts"), filepath.Join(absolute(dir), "src", "core.css")}
	if err := take(api.Build(core)); err != nil {
		return nil, err
	}
	// Pages are built apart from the core and share it at run time, so that a
	// change of one page changes one file.
	of := options(dir)
	of.EntryPoints, of.Plugins = pages, []api.Plugin{shared}
	if err := take(api.Build(of)); err != nil {
		return nil, err
	}
	for from, to := range map[string]string{
		"src/index.html": "index.html", "src/icon.svg": "assets/icon.svg",
		"node_modules/mqtt/dist/mqtt.esm.js": "assets/mqtt.js", // as it is published: large, and of one page
	} {
		if files[to], err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(from))); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// names is a list of the names of pages, as JSON.
func names(pages []string) string {
	list := make([]string, len(pages))
	for i, p := range pages {
		list[i] = strconv.Quote(strings.TrimSuffix(filepath.Base(p), ".tsx"))
	}
	return "[" + strings.Join(list, ",") + "]"
}

func options(dir string) api.BuildOptions {
	return api.BuildOptions{
		AbsWorkingDir:     absolute(dir),
		Outdir:            filepath.Join(absolute(dir), "dist", "assets"),
		Bundle:            true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		Charset:           api.CharsetUTF8,
		LegalComments:     api.LegalCommentsEndOfFile,
		JSX:               api.JSXTransform,
		JSXFactory:        "h",
		JSXFragment:       "Fragment",
		EntryNames:        "[name]",
		Define:            map[string]string{"process.env.NODE_ENV": `"production"`},
	}
}

func absolute(dir string) string {
	path, err := filepath.Abs(dir)
	if err != nil {
		fail(err)
	}
	return path
}

// shared has pages take everything that they have in common from core.js.
var shared = api.Plugin{Name: "core", Setup: func(b api.PluginBuild) {
	b.OnResolve(api.OnResolveOptions{Filter: `^(\.\./)+core$`}, func(api.OnResolveArgs) (api.OnResolveResult, error) {
		return api.OnResolveResult{Path: "./core.js", External: true}, nil
	})
	b.OnResolve(api.OnResolveOptions{Filter: `^mqtt$`}, func(api.OnResolveArgs) (api.OnResolveResult, error) {
		return api.OnResolveResult{Path: "./mqtt.js", External: true}, nil
	})
	b.OnResolve(api.OnResolveOptions{Filter: `^(preact|@preact/)`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		return api.OnResolveResult{}, fmt.Errorf("import %q from ../core: a page must not bring its own", a.Path)
	})
}}

// write replaces what is in a folder by files.
func write(dir string, files map[string][]byte) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
