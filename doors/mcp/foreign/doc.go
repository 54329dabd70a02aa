// Package foreign holds tests with foreign MCP clients: the official TypeScript SDK and
// the inspector.
package foreign
