package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/aibridge/aibridge/commands"
)

// Groups of commands in the help.
const (
	groupProgram = "program"
	groupNouns   = "nouns"
)

// otherVerbs lists words that people try instead of the verb of a command.
var otherVerbs = map[string]string{"skill.discover": "list"}

// addNouns adds a command for every command of the bridge, from its
// declaration: skill.invoke is aibridge skill invoke, and llm.run.list is
// aibridge llm run list. Existing commands stay.
func addNouns(root *cobra.Command, set *commands.Set) {
	root.AddGroup(
		&cobra.Group{ID: groupProgram, Title: "Commands:"},
		&cobra.Group{ID: groupNouns, Title: "The bridge's commands, by what they are about:"})
	for _, cmd := range root.Commands() {
		cmd.GroupID = groupProgram
	}
	for command := range set.All() {
		words := strings.Split(command.Name, ".")
		noun := root
		for i, word := range words[:len(words)-1] {
			noun = below(noun, word, strings.Join(words[:i+1], "."))
		}
		verb := words[len(words)-1]
		if find(noun, verb) == nil {
			noun.AddCommand(verbCommand(command, verb))
		}
	}
}

// find is the command of a name below another, nil if there is none.
func find(parent *cobra.Command, name string) *cobra.Command {
	for _, cmd := range parent.Commands() {
		if cmd.Name() == name || cmd.HasAlias(name) {
			return cmd
		}
	}
	return nil
}

// below is the command for a noun, which is made if it is not there.
func below(parent *cobra.Command, word, family string) *cobra.Command {
	if noun := find(parent, word); noun != nil {
		return noun
	}
	noun := &cobra.Command{Use: word, Short: "Run the bridge's commands of the family " + family}
	if !parent.HasParent() {
		noun.GroupID = groupNouns
	}
	parent.AddCommand(noun)
	return noun
}

// verbCommand runs one command of the bridge.
func verbCommand(command *commands.Command, verb string) *cobra.Command {
	var c call
	required, all := parametersOf(command.ParamsSchema())
	use := verb
	for _, p := range required {
		use += " " + strings.ToUpper(p)
	}
	cmd := &cobra.Command{
		Use:               use + " [name=value… | {…} | @file]",
		Short:             strings.TrimSuffix(command.Summary, "."),
		Long:              command.Summary + fmt.Sprintf(" It is %s; words without a name are its required parameters, in order.", command.Name) + all,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeParameters(&c.target, command.Name, required),
		RunE: func(cmd *cobra.Command, args []string) error {
			words, err := nameWords(args, required)
			if err != nil {
				return err
			}
			return c.run(cmd, command.Name, words)
		},
	}
	other, renamed := otherVerbs[command.Name]
	if renamed {
		cmd.Aliases = []string{other}
	}
	c.addFlags(cmd)
	if verb == "list" || other == "list" {
		addWatch(cmd, &c.watch)
	}
	return cmd
}

// nameWords gives the words without a name those of required parameters that
// are not named, in order.
func nameWords(words, required []string) ([]string, error) {
	left := slices.Clone(required)
	for _, word := range words {
		if name, _, ok := strings.Cut(word, "="); ok {
			left = slices.DeleteFunc(left, func(p string) bool { return p == name })
		}
	}
	named := make([]string, len(words))
	for i, word := range words {
		switch {
		case strings.Contains(word, "="), strings.HasPrefix(word, "{"), strings.HasPrefix(word, "@"):
			named[i] = word
		case len(left) == 0:
			return nil, usageError{fmt.Errorf("%q has no name: say name=value", word)}
		default:
			named[i], left = left[0]+"="+word, left[1:]
		}
	}
	return named, nil
}

// parametersOf are the names of a schema's required parameters, and a list of
// all parameters for the help.
func parametersOf(schema json.RawMessage) (required []string, all string) {
	var node struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Type        any    `json:"type"`
			Description string `json:"description"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &node) != nil || len(node.Properties) == 0 {
		return nil, ""
	}
	var page bytes.Buffer
	page.WriteString("\n\nParameters:\n")
	out := tabwriter.NewWriter(&page, 0, 0, 2, ' ', 0)
	optional := slices.DeleteFunc(slices.Sorted(maps.Keys(node.Properties)), func(p string) bool { return slices.Contains(node.Required, p) })
	for _, name := range append(slices.Clone(node.Required), optional...) {
		p := node.Properties[name]
		kind, _ := p.Type.(string)
		if slices.Contains(node.Required, name) {
			kind += ", required"
		}
		fmt.Fprintf(out, "  %s\t%s\t%s\n", name, kind, p.Description)
	}
	_ = out.Flush() // to memory
	return node.Required, strings.TrimRight(page.String(), "\n")
}
