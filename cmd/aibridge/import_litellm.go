package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/internal/migrate/litellm"
)

func importLiteLLMCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "litellm CONFIG",
		Short: "Make a configuration of language models of a LiteLLM proxy's",
		Long: `Make a configuration of language models of the config.yaml of a LiteLLM proxy:
deployments become routes, with their prices, aliases and fallbacks. What has no
counterpart is said with its line, and what is not understood is left out. Keys
are not copied: the report names the files in which they must be written.
Files that exist are not overwritten, and nothing else is changed.`,
		Example: `  aibridge import litellm config.yaml --to /etc/aibridge
  aibridge serve --llm-file /etc/aibridge/llm.yaml`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			made, err := fromLiteLLM(args[0], to)
			if err != nil {
				return usageError{err}
			}
			return made.write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&to, "to", ".", "folder for the new file")
	return cmd
}

func fromLiteLLM(conf, to string) (*imported, error) {
	to, err := filepath.Abs(to)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(conf)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	models, err := litellm.Read(file, conf, filepath.Join(to, "keys"))
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(models.Config)
	if err != nil {
		return nil, err
	}
	made := &imported{files: map[string][]byte{
		filepath.Join(to, "llm.yaml"): append([]byte("# Made of "+filepath.Base(conf)+" by aibridge import litellm.\n"), text...),
	}}
	made.note(models.Notes)
	return made, nil
}
