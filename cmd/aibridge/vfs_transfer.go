package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/remote"
)

func vfsGetCommand() *cobra.Command {
	var t fileTarget
	var version uint64
	cmd := &cobra.Command{
		Use:   "get GROUP/PATH [FILE]",
		Short: "Fetch a file, to one of the same name by default, or to - for standard output",
		Long: `Fetch a file. It is compared with its checksum before it gets its place; a
fetch that breaks off goes on where it was. Only you may read it, and it is
never executable.`,
		Example: `  aibridge vfs get cap/home/disk/plan.txt
  aibridge vfs get cap/home/cap.json -`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			group, at, err := fileName(args[0])
			if err != nil {
				return err
			}
			to := path.Base(at)
			if len(args) == 2 {
				to = args[1]
			}
			return t.with(cmd.Context(), func(files *remote.Client) error {
				from, f, err := files.Open(cmd.Context(), group, at, version)
				if err != nil {
					return err
				}
				defer from.Close()
				if to == "-" {
					_, err = io.Copy(cmd.OutOrStdout(), from)
					return err
				}
				if info, err := os.Stat(to); err == nil && info.IsDir() {
					return usageError{fmt.Errorf("%s is a folder", to)}
				}
				far := newProgress(cmd.ErrOrStderr(), "fetching "+cell(to), f.Size)
				err = writeWhole(to, func(w io.Writer) error {
					_, err := io.Copy(w, far.reader(from))
					return err
				})
				far.end()
				if err != nil {
					return err
				}
				return t.show(cmd, f.View())
			})
		},
	}
	t.addFlags(cmd)
	cmd.Flags().Uint64Var(&version, "version", 0, "version to fetch; the current one by default")
	return cmd
}

func vfsPutCommand() *cobra.Command {
	var t fileTarget
	var version uint64
	var fresh bool
	cmd := &cobra.Command{
		Use:   "put FILE GROUP/PATH",
		Short: "Store a file, or standard input for -",
		Long: `Store a file, or standard input for -. A file of 8 MiB or more goes on where it
was when the connection breaks, and when the same command is run again within a
day.`,
		Example: `  aibridge vfs put plan.txt cap/home/disk/plan.txt
  date | aibridge vfs put - pictures/taken.txt`,
		Args: exactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			group, at, err := fileName(args[1])
			if err != nil {
				return err
			}
			o := vfs.PutOptions{Size: -1}
			switch {
			case fresh && version != 0:
				return usageError{errors.New("--new and --if-version exclude each other")}
			case fresh, version != 0:
				o.IfVersion = &version
			}
			return t.with(cmd.Context(), func(files *remote.Client) error {
				f, err := putFile(cmd, args[0], files, group, at, o)
				if err != nil {
					return err
				}
				return t.show(cmd, f.View())
			})
		},
	}
	t.addFlags(cmd)
	cmd.Flags().Uint64Var(&version, "if-version", 0, "only if the file still has this version")
	cmd.Flags().BoolVar(&fresh, "new", false, "only if there is no such file")
	return cmd
}

func putFile(cmd *cobra.Command, name string, files *remote.Client, group, at string, o vfs.PutOptions) (vfs.File, error) {
	if name == "-" {
		return files.Put(cmd.Context(), group, at, cmd.InOrStdin(), o)
	}
	from, err := os.Open(name)
	if err != nil {
		return vfs.File{}, err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return vfs.File{}, err
	}
	if !info.Mode().IsRegular() {
		return vfs.File{}, usageError{fmt.Errorf("%s is not a regular file", name)}
	}
	o.Size = info.Size()
	if o.Size >= remote.PartsFrom { // which tells an upload that was begun from another
		if o.SHA256, err = sumOf(from); err != nil {
			return vfs.File{}, err
		}
	}
	far := newProgress(cmd.ErrOrStderr(), "storing "+cell(name), info.Size())
	defer far.end()
	return files.PutFile(cmd.Context(), group, at, struct {
		io.Reader
		io.Seeker
	}{far.reader(from), from}, o)
}

// sumOf is the checksum of a file, which is then at its beginning again.
func sumOf(from *os.File) (*vfs.Sum, error) {
	h := sha256.New()
	if _, err := io.Copy(h, from); err != nil {
		return nil, err
	}
	sum := vfs.Sum(h.Sum(nil))
	_, err := from.Seek(0, io.SeekStart)
	return &sum, err
}
