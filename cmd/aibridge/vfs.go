package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/remote"
)

func vfsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vfs",
		Short: "List, fetch and store files, and see how they are synced",
		Long: `Work with the files of groups. A file is named GROUP/PATH; those of a Cap are
in the group cap, such as cap/home/disk/plan.txt.`,
	}
	cmd.AddCommand(vfsListCommand(), vfsGetCommand(), vfsPutCommand(), vfsRemoveCommand(), vfsSyncCommand(), vfsStatusCommand())
	return cmd
}

// A fileTarget is a bridge whose files are used, over HTTP.
type fileTarget struct {
	target target
	url    string
	shown  format
}

func (f *fileTarget) addFlags(cmd *cobra.Command) {
	f.target.addFlags(cmd.Flags())
	addHTTPURL(cmd.Flags(), &f.url)
	f.shown.addFlags(cmd)
}

// addHTTPURL declares the old name of --url for commands that use HTTP.
func addHTTPURL(fs *pflag.FlagSet, url *string) {
	fs.StringVar(url, "http-url", "", "base URL of the bridge's HTTP door")
	_ = fs.MarkHidden("http-url")
}

// files are the files of the bridge, at a base URL or where the target answers
// HTTP.
func (t *target) files(ctx context.Context, url string) (*remote.Client, error) {
	credential, err := t.bearer()
	if err != nil {
		return nil, err
	}
	config, err := t.tlsConfig()
	if err != nil {
		return nil, err
	}
	if url == "" {
		if url, err = t.httpURL(ctx); err != nil {
			return nil, err
		}
	}
	files, err := remote.New(remote.Options{URL: strings.TrimSuffix(url, "/") + "/vfs", Credential: credential, TLS: config})
	if err != nil {
		return nil, usageError{err}
	}
	return files, nil
}

// with opens the files for one command.
func (f *fileTarget) with(ctx context.Context, do func(*remote.Client) error) error {
	files, err := f.target.files(ctx, f.url)
	if err != nil {
		return err
	}
	return errors.Join(do(files), files.Close())
}

// show shows a result as asked.
func (f *fileTarget) show(cmd *cobra.Command, result any) error {
	data, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return f.shown.write(output(cmd), data, writeTable)
}

// fileName takes GROUP/PATH apart.
func fileName(arg string) (group, path string, err error) {
	group, path, _ = strings.Cut(arg, "/")
	if path == "" {
		return "", "", usageError{fmt.Errorf("%q is no GROUP/PATH", arg)}
	}
	return group, path, nil
}

// fileList is the list that vfs ls shows.
type fileList struct {
	Files []vfs.FileView `json:"files"`
	More  bool           `json:"more,omitempty"`
}

func vfsListCommand() *cobra.Command {
	var t fileTarget
	var deleted bool
	var most int
	cmd := &cobra.Command{
		Use:     "ls GROUP[/FOLDER]",
		Short:   "List files",
		Example: "  aibridge vfs ls pictures\n  aibridge vfs ls cap/home/disk",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			group, folder, _ := strings.Cut(strings.TrimSuffix(args[0], "/"), "/")
			return t.with(cmd.Context(), func(files *remote.Client) error {
				list, err := listFiles(cmd.Context(), files, group, folder, most, deleted)
				if err != nil {
					return err
				}
				return t.show(cmd, list)
			})
		},
	}
	t.addFlags(cmd)
	cmd.Flags().BoolVar(&deleted, "deleted", false, "list deleted files too, as long as they are remembered")
	cmd.Flags().IntVar(&most, "limit", 1000, "how many to show at most, 0 for all")
	return cmd
}

// listFiles asks for page after page.
func listFiles(ctx context.Context, files vfs.Files, group, folder string, most int, deleted bool) (fileList, error) {
	list := fileList{Files: []vfs.FileView{}}
	for cursor := ""; ; {
		limit := vfs.MaxLimit
		if most > 0 {
			limit = min(limit, most-len(list.Files))
		}
		page, next, err := vfs.ListFolder(ctx, files, group, folder, cursor, limit, deleted)
		if err != nil {
			return list, err
		}
		for _, f := range page {
			list.Files = append(list.Files, f.View())
		}
		list.More = next != ""
		if next == "" || most > 0 && len(list.Files) >= most {
			return list, nil
		}
		cursor = next
	}
}

func vfsRemoveCommand() *cobra.Command {
	var t fileTarget
	var version uint64
	cmd := &cobra.Command{
		Use:   "rm GROUP/PATH",
		Short: "Delete a file; its versions are kept for a while",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			group, path, err := fileName(args[0])
			if err != nil {
				return err
			}
			return t.with(cmd.Context(), func(files *remote.Client) error {
				gone, err := files.Delete(cmd.Context(), group, path, version)
				if err != nil {
					return err
				}
				return t.show(cmd, gone.View())
			})
		},
	}
	t.addFlags(cmd)
	cmd.Flags().Uint64Var(&version, "if-version", 0, "only if the file still has this version")
	return cmd
}

func vfsSyncCommand() *cobra.Command {
	var s sessionFlags
	var file string
	cmd := &cobra.Command{
		Use:   "sync CAP_ID",
		Short: "Mirror a Cap, or one of its files, to the VFS now",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"cap_id": args[0], "vfs_path": "/vfs/cap/" + args[0] + "/" + file}
			return s.run(cmd, params, simply("cap.vfs.sync"))
		},
	}
	s.target.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&file, "file", "", "one file, such as disk/plan.txt or group.json; everything by default")
	s.shown.addFlags(cmd)
	return cmd
}

func vfsStatusCommand() *cobra.Command {
	var s sessionFlags
	var most int
	cmd := &cobra.Command{
		Use:   "status CAP_ID",
		Short: "Show where the mirror of a Cap stands, and its files",
		Args:  exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.run(cmd, map[string]any{"cap_id": args[0], "limit": most}, simply("cap.vfs.sync.status"))
		},
	}
	s.target.addFlags(cmd.Flags())
	cmd.Flags().IntVar(&most, "limit", 100, "how many files to show at most")
	s.shown.addFlags(cmd)
	return cmd
}
