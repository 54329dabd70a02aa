package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/internal/clusterkey"
	"github.com/aibridge/aibridge/security/keyfile"
)

func clusterInitCommand() *cobra.Command {
	var data, renew string
	cmd := &cobra.Command{
		Use:   "init FILE",
		Short: "Make the key of a cluster that bridges form by themselves",
		Long: `Make FILE, the key of a cluster that bridges form by themselves. Each of them gets
a copy and is told of it by --cluster-key. Who has it can act as any of them.

The file has the key of the routes between the bridges and the secrets that they
share. A bridge that is to bring its state into the cluster has these secrets
already: name its folder by --data.

After "aibridge secret rotate" of a key file the key has an old version of it, which
is of no use to a further bridge once it is retired. --renew makes it anew, with the
same key of the routes, from the folder of a bridge.`,
		Example: `  aibridge cluster init home.key
  aibridge cluster init home.key --data /var/lib/aibridge
  aibridge cluster init new.key --renew home.key --data /var/lib/aibridge`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := initCluster(args[0], data, renew); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "made %s: give each bridge a copy, and nobody else\n", args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "folder of a bridge whose secrets become those of the cluster")
	cmd.Flags().StringVar(&renew, "renew", "", "key of the cluster, to be made anew with what the bridge in --data has")
	return cmd
}

// initCluster makes the key file at path, from that at renew unless that is "". One
// that is there stays.
func initCluster(path, data, renew string) error {
	if data != "" {
		if _, err := os.Stat(data); err != nil {
			return err
		}
	}
	key, err := newClusterKey(data, renew)
	if err != nil {
		return err
	}
	return writeClusterKey(path, key)
}

// writeClusterKey writes a key file. One that is there stays.
func writeClusterKey(path string, key *clusterkey.Key) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s is there already", path))
	}
	text, err := key.Encode()
	if err != nil {
		return err
	}
	return keyfile.Write(path, text)
}

func newClusterKey(data, renew string) (*clusterkey.Key, error) {
	if renew == "" {
		return clusterkey.New(data)
	}
	if data == "" {
		return nil, errors.New("--renew: takes --data, the folder of a bridge of the cluster")
	}
	old, err := clusterkey.Read(renew)
	if err != nil {
		return nil, err
	}
	return old.Renew(data)
}
