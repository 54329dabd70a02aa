// Command mcpconformance runs the official conformance suite of the Model Context
// Protocol against a bridge: make mcp-conformance.
//
// The suite calls tools, prompts and resources of its own. They are an MCP server
// here that the bridge uses, so that everything goes through the bridge. Their names
// begin with the server's there, which the suite does not know: a gateway before
// the bridge puts that before names on the way in, and takes it off on the way out.
package main
