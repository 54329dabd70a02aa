package mcp_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	mcpdoor "github.com/aibridge/aibridge/doors/mcp"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// abroad has resources and prompts of another server.
type abroad struct{ resources, prompts []string }

func (abroad) Owns(uri string) bool { return uri[:4] == "mcp:" }

func (a abroad) Resources(context.Context, tools.Environment) []mcpdoor.Resource {
	var all []mcpdoor.Resource
	for _, uri := range a.resources {
		all = append(all, mcpdoor.Resource{URI: uri, Name: uri, Source: "mcp:abroad"})
	}
	return all
}

func (abroad) Templates(context.Context, tools.Environment) []mcpdoor.Template { return nil }

func (abroad) Read(_ context.Context, _ tools.Environment, uri string) ([]tools.Piece, error) {
	return []tools.Piece{{Kind: tools.PieceResource, URI: uri, Data: "aGVsbG8="}}, nil
}

func (a abroad) Prompts(context.Context, tools.Environment) []mcpdoor.Prompt {
	var all []mcpdoor.Prompt
	for _, name := range a.prompts {
		all = append(all, mcpdoor.Prompt{Name: name, Source: "mcp:abroad"})
	}
	return all
}

func (abroad) Prompt(_ context.Context, _ tools.Environment, name string, _ map[string]string) (string, []mcpdoor.PromptMessage, error) {
	return name, []mcpdoor.PromptMessage{{Role: "user", Piece: tools.Piece{Kind: tools.PieceText, Text: "from abroad"}}}, nil
}

func (a abroad) MayFollow(_ context.Context, env tools.Environment, uri string) error {
	if env.Principal.ID != "ada" || !slices.Contains(a.resources, uri) {
		return protocol.Errorf(protocol.NotFound, "no such resource")
	}
	return nil
}

func (a abroad) Follow(ctx context.Context, env tools.Environment, uri string) (func(), error) {
	return func() {}, a.MayFollow(ctx, env, uri)
}

func (abroad) Complete(_ context.Context, _ tools.Environment, prompt, template, argument, typed string, given map[string]string, _ int) ([]string, bool, error) {
	return []string{fmt.Sprint(prompt, "|", template, "|", argument, "|", typed, "|", given["other"])}, true, nil
}

func (a abroad) Shown(context.Context, tools.Environment) string { return fmt.Sprint(a) }

func TestForeignResourcesComeAfterOnesOwnWhateverThePage(t *testing.T) {
	want := []string{secretPlans, "mcp:///a/1", "mcp:///a/2", "mcp:///b/1"}
	for size := 1; size <= 5; size++ {
		w := newWorld(t, func(o *mcpdoor.Options) { o.PageSize, o.Foreign = size, abroad{resources: want[1:]} })
		c := w.connect(t, "ada", "", nil)
		var got []string
		for r, err := range c.Resources(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, r.URI); r.URI != secretPlans && (r.Meta["aibridge/source"] != "mcp:abroad" || r.Meta["aibridge/untrusted"] != true) {
				t.Errorf("%s is not marked: %v", r.URI, r.Meta)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v", size, got)
		}
		if r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "mcp:///a/1"}); err != nil || string(r.Contents[0].Blob) != "hello" {
			t.Errorf("read: %v %+v", err, r)
		}
		if _, err := c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: "foreign.made-up"}); err == nil {
			t.Error("a cursor that was made up is taken")
		}
	}
}

func TestForeignPromptsStandAmongOnesOwn(t *testing.T) {
	w := newWorld(t, func(o *mcpdoor.Options) { o.Foreign = abroad{prompts: []string{"mcp.a.sum", "weather"}} })
	c := w.connect(t, "ada", "", nil)
	list, err := c.ListPrompts(t.Context(), nil)
	if err != nil || len(list.Prompts) != 2 || list.Prompts[0].Name != "mcp.a.sum" || list.Prompts[1].Meta["aibridge/source"] != "mcp:abroad" {
		t.Fatalf("prompts: %v %+v", err, list)
	}
	if p, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "weather"}); err != nil || p.Messages[0].Content.(*sdk.TextContent).Text != "from abroad" {
		t.Errorf("prompt: %v %+v", err, p)
	}
}
