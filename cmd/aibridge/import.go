package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/internal/migrate"
	"github.com/aibridge/aibridge/internal/migrate/mosquitto"
	"github.com/aibridge/aibridge/security/password"
)

func importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Take over the configuration of another program",
	}
	cmd.AddCommand(importMosquittoCommand(), importLiteLLMCommand())
	return cmd
}

func importMosquittoCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "mosquitto CONF",
		Short: "Make a configuration of a mosquitto.conf, its passwords and its ACL",
		Long: `Make a configuration of a mosquitto.conf: listeners, limits and TLS become
settings, the password file stays as it is, so that clients keep their passwords,
and the ACL becomes a policy. What has no counterpart is said with its line.
Files that exist are not overwritten, and nothing else is changed.`,
		Example: `  aibridge import mosquitto /etc/mosquitto/mosquitto.conf --to /etc/aibridge
  aibridge serve --config /etc/aibridge/aibridge.yaml`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			made, err := fromMosquitto(args[0], to)
			if err != nil {
				return usageError{err}
			}
			return made.write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&to, "to", ".", "folder for the new files")
	return cmd
}

// An imported configuration.
type imported struct {
	files map[string][]byte // by path
	notes []string
}

// write writes the files, and reports differences from the imported configuration.
func (i *imported) write(w io.Writer) error {
	for _, name := range slices.Sorted(maps.Keys(i.files)) {
		if err := writeNew(name, i.files[name]); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(w, "wrote %s\n", name)
	}
	return report(w, i.notes)
}

func (i *imported) note(notes []migrate.Note) {
	for _, n := range notes {
		i.notes = append(i.notes, n.String())
	}
}

// fromMosquitto reads a configuration and the files that it names.
func fromMosquitto(conf, to string) (*imported, error) {
	to, err := filepath.Abs(to)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(conf)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	b, err := mosquitto.Read(file, conf)
	if err != nil {
		return nil, err
	}
	made := &imported{files: make(map[string][]byte)}
	made.note(b.Notes)
	users, err := made.passwords(b, to)
	if err != nil {
		return nil, err
	}
	if err := made.policy(b, to, users); err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(b.Settings)
	if err != nil {
		return nil, err
	}
	made.files[filepath.Join(to, "aibridge.yaml")] = append([]byte("# Made of "+conf+" by aibridge import mosquitto.\n"), text...)
	return made, nil
}

// passwords copies the password file, and returns its users.
func (i *imported) passwords(b *mosquitto.Bridge, to string) (users []string, err error) {
	if b.PasswordFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(b.PasswordFile)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(b.PasswordFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	known, faults, err := password.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.PasswordFile, err)
	}
	for _, f := range faults {
		i.notes = append(i.notes, fmt.Sprintf("%s:%d: %s", b.PasswordFile, f.Line, f.Why))
	}
	path := filepath.Join(to, "passwords")
	i.files[path] = text
	b.Settings["passwords"] = map[string]any{"file": path}
	return slices.Sorted(maps.Keys(known)), nil
}

// policy makes a policy of the ACL.
func (i *imported) policy(b *mosquitto.Bridge, to string, users []string) error {
	if b.ACLFile == "" {
		return nil
	}
	file, err := os.Open(b.ACLFile)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	cedar, notes, err := mosquitto.Policy(file, b.ACLFile, users)
	if err != nil {
		return fmt.Errorf("%s: %w", b.ACLFile, err)
	}
	i.note(notes)
	path := filepath.Join(to, "policies", "mosquitto.cedar")
	i.files[path] = []byte(cedar)
	b.Settings["security"] = map[string]any{"policies": filepath.Dir(path)}
	return nil
}

// writeNew writes a file that is its owner's alone, unless there is one.
func writeNew(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; remove it, or name another folder by --to", path)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// report prints the differences from the imported configuration.
func report(w io.Writer, notes []string) error {
	if len(notes) == 0 {
		_, err := fmt.Fprintln(w, "everything has a counterpart")
		return err
	}
	_, err := fmt.Fprintln(w, "\nnot as it was:")
	for _, n := range notes {
		if err == nil {
			_, err = fmt.Fprintln(w, "  "+n)
		}
	}
	return err
}
