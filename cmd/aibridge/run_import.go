package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/vfs"
)

func runImportCommand() *cobra.Command {
	var s sessionFlags
	var group, url string
	var replace bool
	cmd := &cobra.Command{
		Use:   "import PACKAGE",
		Short: "Check a workflow package and keep it for runs: a zip, or a folder",
		Long: `Check a workflow package and keep it for runs. PACKAGE is a zip or a folder on
this machine, or with --group the path of a zip among the files of the bridge.`,
		Example: `  aibridge run import examples/workflow/climate-check
  aibridge run import climate-check-1.0.0.zip
  aibridge run import --group workflows climate-check-1.0.0.zip`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"replace": replace}
			if group != "" {
				params["group_name"], params["path"] = group, args[0]
				return s.run(cmd, params, simply("llm.run.import"))
			}
			data, err := packed(args[0])
			if err != nil {
				return usageError{err}
			}
			if len(data) <= maxInline {
				params["content"] = base64.StdEncoding.EncodeToString(data)
				return s.run(cmd, params, simply("llm.run.import"))
			}
			return s.run(cmd, params, func(ctx context.Context, call caller, params map[string]any) (json.RawMessage, error) {
				far := newProgress(cmd.ErrOrStderr(), "storing "+cell(args[0]), int64(len(data)))
				defer far.end()
				return importLarge(ctx, &s.target, url, filepath.Base(args[0]), data, far, call, params)
			})
		},
	}
	s.addTarget(cmd)
	cmd.Flags().StringVar(&group, "group", "", "group of files on the bridge that the zip is in")
	cmd.Flags().BoolVar(&replace, "replace", false, "take the place of another package of that name and version")
	addHTTPURL(cmd.Flags(), &url)
	return cmd
}

// maxInline is the largest zip that goes with the command itself, in bytes.
const maxInline = 512 << 10

// packages is the group of files that large packages go through.
const packages = "packages"

// importLarge stores a zip among the bridge's files and imports it from there.
func importLarge(ctx context.Context, t *target, url, name string, data []byte, far *progress, call caller, params map[string]any) (json.RawMessage, error) {
	files, err := t.files(ctx, url)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	name = strings.TrimSuffix(name, ".zip") + ".zip"
	if _, err := files.Put(ctx, packages, name, far.reader(bytes.NewReader(data)), vfs.PutOptions{Size: int64(len(data)), ContentType: "application/zip"}); err != nil {
		return nil, fmt.Errorf("store the package: %w", err)
	}
	params["group_name"], params["path"] = packages, name
	return call(ctx, "llm.run.import", params)
}

// packed is a package as a zip: as it is, or made of a folder.
func packed(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return os.ReadFile(path)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	tree := root.FS()
	err = fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != "." && strings.HasPrefix(d.Name(), "."): // such as .git
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is no plain file", path)
		}
		text, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		f, err := w.Create(path)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return err
	})
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
