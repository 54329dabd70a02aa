package mcp

import (
	"context"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

func (d *Door) listResources(ctx context.Context, env tools.Environment, r *sdk.ListResourcesRequest) (*sdk.ListResourcesResult, error) {
	cursor := ""
	if r.Params != nil {
		cursor = r.Params.Cursor
	}
	some, next, err := d.resourcePage(ctx, env, cursor)
	if err != nil {
		return nil, err
	}
	result := &sdk.ListResourcesResult{Resources: make([]*sdk.Resource, 0, len(some)), NextCursor: next}
	result.CacheScope = "private"
	for _, one := range some {
		result.Resources = append(result.Resources, &sdk.Resource{
			URI: one.URI, Name: one.Name, Title: one.Title, Description: bounded(one.Description, maxDescription),
			MIMEType: one.MIMEType, Size: one.Size, Meta: sourceMeta(one.Source),
		})
	}
	return result, nil
}

func (d *Door) listTemplates(ctx context.Context, env tools.Environment, r *sdk.ListResourceTemplatesRequest) (*sdk.ListResourceTemplatesResult, error) {
	if r.Params != nil && r.Params.Cursor != "" { // there is only one page
		return nil, protocol.InvalidParam("cursor", "is not one that was given out here")
	}
	result := &sdk.ListResourceTemplatesResult{ResourceTemplates: []*sdk.ResourceTemplate{}}
	result.CacheScope = "private"
	for _, t := range append(d.opts.Resources.Templates(), d.opts.Foreign.Templates(ctx, env)...) {
		result.ResourceTemplates = append(result.ResourceTemplates, &sdk.ResourceTemplate{
			URITemplate: t.URI, Name: t.Name, Description: bounded(t.Description, maxDescription), MIMEType: t.MIMEType, Meta: sourceMeta(t.Source),
		})
	}
	return result, nil
}

func (d *Door) readResource(ctx context.Context, env tools.Environment, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := r.Params.URI
	if d.opts.Foreign.Owns(uri) {
		return d.readForeign(ctx, env, uri)
	}
	content, err := d.opts.Resources.Read(ctx, env, uri)
	if known := new(protocol.Error); errors.As(err, &known) && (known.Code == protocol.NotFound || known.Code == protocol.FileNotFound) {
		return nil, sdk.ResourceNotFoundError(bounded(uri, 1024))
	}
	if err != nil {
		return nil, err
	}
	contents := &sdk.ResourceContents{URI: uri, MIMEType: content.MIMEType}
	if content.Text {
		contents.Text = string(content.Data)
	} else {
		contents.Blob = content.Data
	}
	result := &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}
	result.CacheScope = "private"
	return result, nil
}

// sourceMeta is the mark of a foreign item, nil for the bridge's own.
func sourceMeta(source string) sdk.Meta {
	if source == "" {
		return nil
	}
	return sdk.Meta{sourceKey: source, untrustedKey: true}
}
